"""What a server measures about its CPU at the start: lanes, threads, cost of a pass, size of a batch."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from weft.inference.batches import OVERHEAD
from weft.utils.cores import cores

if TYPE_CHECKING:
    from weft.model.model import Model

ALONE = (1, 32)
"""The shape of one text: rows and tokens."""
SMALL, LARGE = (1, 8), (16, 32)
"""The two shapes that are timed to find the cost of a pass."""
PATIENCE = 1.5
"""One text alone may take so many times its shortest time, if more texts per second are answered in turn."""
SHARE = 8
"""A batch has so many times the positions that its overhead costs: the overhead is then an eighth of it."""
LEAST, MOST = 512, 4096
"""The bounds of a batch on a CPU, in token positions."""


@dataclass(frozen=True)
class Tuned:
    """How a model runs best on this machine.

    Attributes:
        threads: the number of CPU threads of a pass.
        lanes: how many passes run side by side.
        overhead: what a pass costs besides its rows, in token positions.
        tokens: the token positions of a batch; None: the default of the device.
    """

    threads: int
    lanes: int = 1
    overhead: float = OVERHEAD
    tokens: int | None = None


def tuned(model: Model, threads: int | None = None) -> Tuned:
    """Measure a model on its CPU; on a GPU nothing is measured. No other thread may use the model meanwhile.

    Args:
        model: the model.
        threads: the number of CPU threads of all lanes together; None: one per core.
    """
    if next(model.parameters()).device.type != "cpu":
        return Tuned(torch.get_num_threads())
    before = torch.get_num_threads()
    lanes, count = _layout(model, threads or cores())
    _use_threads(model, count)
    # while all lanes run: they read the weights through the same memory
    small, large = (lanes / _passes_per_s(model, lanes, count, shape) for shape in (SMALL, LARGE))
    sizes = [rows * length for rows, length in (SMALL, LARGE)]
    per_position = max((large - small) / (sizes[1] - sizes[0]), 1e-9)
    overhead = max(small / per_position - sizes[0], 0.0)
    torch.set_num_threads(before)
    return Tuned(count, lanes, overhead, int(min(max(SHARE * overhead, LEAST), MOST)))


def _layout(model: Model, total: int) -> tuple[int, int]:
    """The number of lanes, and of threads of each, that answer most texts per second.

    Fewer lanes unless more are clearly faster: one text alone is then answered sooner.
    """
    counts = sorted({1, 2, 4, 8, 16, 32, total // 2, total} & set(range(1, total + 1)))
    if counts == [1]:
        return 1, 1
    alone = {}
    for count in counts:
        _use_threads(model, count)
        alone[count] = _seconds(model, *ALONE)
    quick = [count for count in counts if alone[count] <= PATIENCE * min(alone.values())]
    rates = {}
    for count in quick:
        _use_threads(model, count)
        rates[count] = _passes_per_s(model, total // count, count)
    count = next(count for count in reversed(quick) if rates[count] >= max(rates.values()) / 1.05)
    return total // count, count


def _passes_per_s(
    model: Model, lanes: int, threads: int, shape: tuple[int, int] = LARGE, repeats: int = 4
) -> float:
    """Passes per second of all lanes together, while all of them run."""

    def run(_: int) -> float:
        return _seconds(model, *shape, repeats=0)

    # the number of threads is a setting of each thread
    with ThreadPoolExecutor(lanes, initializer=torch.set_num_threads, initargs=(threads,)) as pool:
        list(pool.map(run, range(lanes)))
        began = time.perf_counter()
        list(pool.map(run, range(lanes * repeats)))
        return lanes * repeats / (time.perf_counter() - began)


def _use_threads(model: Model, count: int) -> None:
    """Set the number of threads: torch's, or those of a model that runs elsewhere (`OnnxModel`)."""
    own = getattr(model, "use_threads", None)
    (torch.set_num_threads if own is None else own)(count)


@torch.no_grad()
def _seconds(model: Model, rows: int, length: int, repeats: int = 3) -> float:
    """The seconds of a pass over rows of all tasks, after a first one; the fastest of some."""
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
    return min(taken, default=0.0)
