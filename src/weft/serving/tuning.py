"""What a server measures about its CPU at the start: threads, the cost of a pass, the size of a batch."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from weft.inference.batches import OVERHEAD
from weft.utils.cores import cores

if TYPE_CHECKING:
    from weft.model.model import Model

SMALL, LARGE = (1, 8), (32, 32)
"""The two shapes that are timed: rows and tokens."""
SHARE = 16
"""A batch has so many times the positions that its overhead costs: the overhead is then a sixteenth of it."""
LEAST, MOST = 512, 8192
"""The bounds of a batch on a CPU, in token positions."""


@dataclass(frozen=True)
class Tuned:
    """How a model runs best on this machine.

    Attributes:
        threads: the number of CPU threads of a pass.
        overhead: what a pass costs besides its rows, in token positions.
        tokens: the token positions of a batch; None: the default of the device.
    """

    threads: int
    overhead: float = OVERHEAD
    tokens: int | None = None


def tuned(model: Model, threads: int | None = None) -> Tuned:
    """Measure a model on its CPU; on a GPU nothing is measured.

    The thread that calls this gets the number of threads: it is the one that runs the model.

    Args:
        model: the model.
        threads: the number of threads; None: the fastest.
    """
    if next(model.parameters()).device.type != "cpu":
        return Tuned(torch.get_num_threads())
    count = threads or _fastest(model)
    _use_threads(model, count)
    small, large = (_seconds(model, *shape) for shape in (SMALL, LARGE))
    sizes = [rows * length for rows, length in (SMALL, LARGE)]
    per_position = max((large - small) / (sizes[1] - sizes[0]), 1e-9)
    overhead = max(small / per_position - sizes[0], 0.0)
    return Tuned(count, overhead, int(min(max(SHARE * overhead, LEAST), MOST)))


def _fastest(model: Model) -> int:
    most = cores()
    counts = sorted({1, 2, 4, 8, 16, 32, most // 2, most} & set(range(1, most + 1)))
    seconds: dict[int, float] = {}
    for count in counts:
        _use_threads(model, count)
        seconds[count] = _seconds(model, *LARGE)
    # fewer threads unless more are clearly faster: the HTTP server and the tokenizer need time too
    return next(count for count in counts if seconds[count] <= 1.05 * min(seconds.values()))


def _use_threads(model: Model, count: int) -> None:
    """Set the number of threads: torch's, or those of a model that runs elsewhere (`OnnxModel`)."""
    own = getattr(model, "use_threads", None)
    (torch.set_num_threads if own is None else own)(count)


@torch.no_grad()
def _seconds(model: Model, rows: int, length: int, repeats: int = 3) -> float:
    """The seconds of a pass over rows of all tasks; the fastest of some."""
    inputs = {
        "input_ids": torch.full((rows, length), model.pad_id),
        "attention_mask": torch.ones(rows, length, dtype=torch.long),
        "task": torch.arange(rows) % len(model.tasks),
    }
    model.run(**inputs)
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        model.run(**inputs)
        taken.append(time.perf_counter() - began)
    return min(taken)
