"""The peak memory of one cell, in a worker that runs many.

On a GPU it is what PyTorch had allocated at most beyond what was there before. On a CPU it is the peak of the
whole process. Linux can forget the peak of earlier cells; elsewhere it is the peak since the worker's start.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from pathlib import Path

from weft.utils.heap import give_back

_RESET = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


def memory_before() -> int:
    """Free what earlier cells have left and forget their peak; returns the bytes on the GPU that stay."""
    gc.collect()
    give_back()
    with suppress(OSError):
        _RESET.write_text("5")  # the peak is now what is resident
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return 0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return int(torch.cuda.memory_allocated())


def peak_memory(before: int) -> int:
    """The peak of the cell's memory in bytes.

    Args:
        before: what `memory_before` has returned.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return int(torch.cuda.max_memory_allocated()) - before
    with suppress(OSError, StopIteration, ValueError):
        lines = _STATUS.read_text().splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
