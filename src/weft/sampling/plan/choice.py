"""How draws choose tasks: by chance, or in turn. Each is a pure function of the draw's number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import WeftError
from weft.utils.counter_rng import Bits, Ints, half_bits


class Choice(ABC):
    """A rule that gives every draw c = 0, 1, 2, … a task.

    Attributes:
        share: the expected share of the draws of each task, [T].
    """

    share: NDArray[np.float64]

    @abstractmethod
    def tasks(self, key: Bits, first: int, stop: int) -> Ints:
        """The task ids of the draws first, …, stop − 1, [stop − first]."""

    @abstractmethod
    def counts(self, key: Bits, first: int, stop: int) -> Ints:
        """How many of the draws first, …, stop − 1 each task gets, [T]."""

    @abstractmethod
    def without(self, gone: Sequence[int], draw: int) -> Choice:
        """The rule for the draws from `draw` on, in which some tasks are drawn no more.

        Args:
            gone: their task ids; at least one task with a share must be left.
            draw: the first draw without them.
        """


class Chance(Choice):
    """Every draw is independent: task i with probability p_i.

    The probabilities become whole multiples of 2⁻³². A draw u of 32 bits goes to the task whose interval
    it falls in, [edge_{i−1}, edge_i); a task with p > 0 has an interval, be it of one number.

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
        widths[p.argmax()] += 2**32 - widths.sum()  # what the rounding left over
        self._edges = np.cumsum(widths)[:-1].astype(np.uint32)

    def tasks(self, key: Bits, first: int, stop: int) -> Ints:
        """The task ids of the draws, [stop − first]."""
        u = half_bits(key, first, stop)
        return self._present[np.searchsorted(self._edges, u, side="right")]

    def counts(self, key: Bits, first: int, stop: int) -> Ints:
        """The number of draws of each task, [T]."""
        u = half_bits(key, first, stop)
        # a comparison an edge is quicker than a search a draw, up to some two hundred tasks
        at_least = [len(u), *(int(np.count_nonzero(u >= edge)) for edge in self._edges), 0]
        counts = np.zeros(len(self.share), np.int64)
        counts[self._present] = -np.diff(np.array(at_least))
        return counts

    def without(self, gone: Sequence[int], draw: int) -> Chance:
        """The others, with p_i / Σ_j p_j over those that are left."""
        p = self.share.copy()
        p[list(gone)] = 0
        return Chance(p / p.sum())


class Cycle(Choice):
    """The tasks take turns: draw c goes to order[(c − start) mod C].

    Args:
        order: the task ids of one cycle, [C]; a task may come more than once, or not at all.
        tasks: the number of tasks T.
        start: the draw at which a cycle begins, and before which nothing is asked for.
    """

    def __init__(self, order: ArrayLike, tasks: int, start: int = 0) -> None:
        self._order = np.asarray(order, np.int64)
        self._start = start
        self._a_cycle = np.bincount(self._order, minlength=tasks)
        self.share = self._a_cycle / len(self._order)

    def tasks(self, key: Bits, first: int, stop: int) -> Ints:
        """The task ids of the draws, [stop − first]."""
        return self._order[np.arange(first - self._start, stop - self._start) % len(self._order)]

    def counts(self, key: Bits, first: int, stop: int) -> Ints:
        """The number of draws of each task, [T]."""
        return self._before(stop) - self._before(first)

    def without(self, gone: Sequence[int], draw: int) -> Cycle:
        """The others go on in their order, beginning with the one whose turn is next."""
        order = np.roll(self._order, self._start - draw)
        return Cycle(order[~np.isin(order, list(gone))], len(self.share), draw)

    def _before(self, draw: int) -> Ints:
        cycles, rest = divmod(draw - self._start, len(self._order))
        return cycles * self._a_cycle + np.bincount(self._order[:rest], minlength=len(self._a_cycle))


@dataclass(frozen=True)
class Segment:
    """Steps that choose alike: first, …, stop − 1."""

    first: int
    stop: int
    choice: Choice
