"""Choice: how draws choose tasks, at random or in turn; a pure function of the draw's number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import WeftError
from weft.utils.counter_rng import Bits, Ints, half_bits


class Choice(ABC):
    """A rule that assigns a task to every draw c = 0, 1, 2, …

    Attributes:
        share: the expected share of the draws of each task, [T].
    """

    share: NDArray[np.float64]

    @abstractmethod
    def tasks(self, key: Bits, first: int, stop: int) -> Ints:
        """Return the task ids of the draws first, …, stop − 1, [stop − first]."""

    @abstractmethod
    def counts(self, key: Bits, first: int, stop: int) -> Ints:
        """Return the number of draws of each task among first, …, stop − 1, [T]."""

    @abstractmethod
    def without(self, gone: Sequence[int], draw: int) -> Choice:
        """Return the rule for the draws from `draw` on, without some tasks.

        Args:
            gone: the removed task ids; at least one task with a share must remain.
            draw: the first draw without them.
        """


class Chance(Choice):
    """Every draw is independent: task i with probability p_i.

    The probabilities are rounded to multiples of 2⁻³². A draw u of 32 bits belongs to the task whose interval
    [edge_{i−1}, edge_i) contains it; a task with p > 0 has an interval of at least one number.

    Args:
        probabilities: p, [T]; not negative, with sum 1.
    """

    def __init__(self, probabilities: ArrayLike) -> None:
        p = np.asarray(probabilities, np.float64)
        if p.ndim != 1 or not (p >= 0).all() or abs(p.sum() - 1) > 1e-6:
            raise WeftError(f"probabilities of tasks must be at least 0 and sum to 1; found {p.tolist()}")
        self.share = p
        self._present = np.flatnonzero(p)
        p = p[self._present]
        widths = np.maximum(np.floor(p * 2.0**32).astype(np.int64), 1)
        widths[p.argmax()] += 2**32 - widths.sum()  # the remainder of rounding
        self._edges = np.cumsum(widths)[:-1].astype(np.uint32)

    def tasks(self, key: Bits, first: int, stop: int) -> Ints:
        """The task ids of the draws, [stop − first]."""
        u = half_bits(key, first, stop)
        return self._present[np.searchsorted(self._edges, u, side="right")]

    def counts(self, key: Bits, first: int, stop: int) -> Ints:
        """The number of draws of each task, [T]."""
        u = half_bits(key, first, stop)
        # one comparison per edge is faster than one search per draw, up to about two hundred tasks
        at_least = [len(u), *(int(np.count_nonzero(u >= edge)) for edge in self._edges), 0]
        counts = np.zeros(len(self.share), np.int64)
        counts[self._present] = -np.diff(np.array(at_least))
        return counts

    def without(self, gone: Sequence[int], draw: int) -> Chance:
        """Return the remaining tasks, with p_i / Σ_j p_j over them."""
        p = self.share.copy()
        p[list(gone)] = 0
        return Chance(p / p.sum())


class Cycle(Choice):
    """The tasks take turns: draw c is task order[(c − start) mod C].

    Args:
        order: the task ids of one cycle, [C]; a task may occur several times or not at all.
        tasks: the number of tasks T.
        start: the draw at which a cycle begins; earlier draws are never requested.
    """

    def __init__(self, order: ArrayLike, tasks: int, start: int = 0) -> None:
        self._order = np.asarray(order, np.int64)
        self._start = start
        self._per_cycle = np.bincount(self._order, minlength=tasks)
        self.share = self._per_cycle / len(self._order)

    def tasks(self, key: Bits, first: int, stop: int) -> Ints:
        """The task ids of the draws, [stop − first]."""
        return self._order[np.arange(first - self._start, stop - self._start) % len(self._order)]

    def counts(self, key: Bits, first: int, stop: int) -> Ints:
        """The number of draws of each task, [T]."""
        return self._before(stop) - self._before(first)

    def without(self, gone: Sequence[int], draw: int) -> Cycle:
        """Return the remaining tasks in their order, starting with the next in turn."""
        order = np.roll(self._order, self._start - draw)
        return Cycle(order[~np.isin(order, list(gone))], len(self.share), draw)

    def _before(self, draw: int) -> Ints:
        cycles, rest = divmod(draw - self._start, len(self._order))
        return cycles * self._per_cycle + np.bincount(self._order[:rest], minlength=len(self._per_cycle))


@dataclass(frozen=True)
class Segment:
    """The steps first, …, stop − 1, which choose tasks by the same rule."""

    first: int
    stop: int
    choice: Choice
