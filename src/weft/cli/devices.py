"""The device that a command uses."""

from __future__ import annotations

from weft import launched
from weft.errors import WeftError


def device_of(asked: str | None) -> str:
    """The device asked for, if it is there; by default a GPU if there is one."""
    import torch

    if asked is None:
        if not torch.cuda.is_available():
            return "cpu"
        # of processes that were started together, each has a GPU of its own
        return f"cuda:{launched.local_rank()}" if launched.world() > 1 else "cuda"
    if asked == "meta":
        raise WeftError("device 'meta' holds no numbers to compute with; expected cpu, cuda, …")
    try:
        torch.empty(1, device=asked)
    except (RuntimeError, AssertionError, NotImplementedError) as wrong:
        raise WeftError(f"device {asked!r} cannot be used: {str(wrong).splitlines()[0]}") from None
    return asked
