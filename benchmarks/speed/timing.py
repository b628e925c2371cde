"""Time variants in turns in one loop: medians and quartiles of each.

Timed one after the other, other work on the machine, its clock and its temperature would affect one variant
and not to the next. In a round every variant runs once; the order turns around from round to round.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from benchmarks.speed.machine import synchronise

FEWEST = 3
"""The number of rounds that are run even after the deadline; fewer have no quartiles."""


@dataclass
class Variant:
    """A variant to time.

    Attributes:
        name: of its row.
        run: does the work once, on its own inputs.
        keeps: modules and optimizers that it holds between two runs, for its memory.
        shares: those of them that were there before it was built.
        facts: what its row says besides.
        peak_mb: its memory, where it was measured.
    """

    name: str
    run: Callable[[], object]
    keeps: tuple[object, ...] = ()
    shares: tuple[object, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    peak_mb: float | None = None


@dataclass(frozen=True)
class Taken:
    """The times of a variant: median and quartiles in milliseconds over `rounds` rounds."""

    ms: float
    low: float
    high: float
    rounds: int


def interleaved(
    variants: Sequence[Variant],
    device: torch.device,
    rounds: int,
    warm: int = 2,
    inner: int = 1,
    deadline: float | None = None,
) -> dict[str, Taken]:
    """Time the variants in turns.

    Args:
        variants: what is timed.
        device: it is waited for before and after each variant.
        rounds: how often each has its turn.
        warm: rounds before that, which are not counted.
        inner: runs in a turn; a turn's time is divided by it. On a GPU several, as a training loop has them:
            the host may then prepare a run while the device works on the last.
        deadline: of `time.monotonic()`; after it no round begins, `FEWEST` apart.
    """
    seconds: dict[str, list[float]] = {variant.name: [] for variant in variants}
    for number in range(warm + rounds):
        late = deadline is not None and time.monotonic() > deadline
        if late and number >= FEWEST:
            break
        for variant in variants if number % 2 == 0 else list(reversed(variants)):
            synchronise(device)
            start = time.perf_counter()
            for _ in range(inner):
                variant.run()
            synchronise(device)
            # after the deadline warm-up rounds are counted: every variant has run once when it was built
            if number >= warm or late:
                seconds[variant.name].append((time.perf_counter() - start) / inner)
    return {name: spread(taken) for name, taken in seconds.items()}


def spread(seconds: Sequence[float]) -> Taken:
    """Median and quartiles of some times, in milliseconds."""
    if len(seconds) < 2:
        only = 1e3 * seconds[0]
        return Taken(only, only, only, 1)
    low, middle, high = (1e3 * value for value in statistics.quantiles(seconds, n=4, method="inclusive"))
    return Taken(middle, low, high, len(seconds))
