"""Few padded sizes, so that each is compiled or captured once, and little is padded.

A step whose longest row has n tokens is padded to the least of the chosen lengths that is n or more. Of all
sets of at most k lengths, the one with the least Σ padded length over the steps is found by dynamic
programming: with u_1 < … < u_m the lengths that occur, rounded up, and c_i the steps of each,

    cost(j, k) = min over i < j of cost(i, k − 1) + u_j · (c_{i+1} + … + c_j).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import WeftError
from weft.utils.counter_rng import Ints

LENGTHS, ROWS = 12, 4
"""The most padded lengths, and the most numbers of rows."""


class Waste(NamedTuple):
    """The shares of all token places that hold no token.

    Attributes:
        within: because rows of one batch differ in length.
        rounding: because a batch is padded to one of a few lengths and numbers of rows.
    """

    within: float
    rounding: float

    @property
    def total(self) -> float:
        """The share of all token places that hold no token."""
        return self.within + self.rounding


def choose_lengths(
    step_lengths: ArrayLike, most: int = LENGTHS, multiple: int = 8, limit: int | None = None
) -> tuple[int, ...]:
    """The padded lengths that waste least, ascending; the last holds the longest step.

    Args:
        step_lengths: the longest row of each step, or of a sample of them that has the longest, [n].
        most: how many lengths there may be.
        multiple: what each is a multiple of: kernels are quicker so.
        limit: the longest row that the model takes; a length that would be above it is it.
    """
    needed = -(-_numbers(step_lengths) // multiple) * multiple
    return _fewest(needed if limit is None else np.minimum(needed, limit), most)


def choose_rows(step_rows: ArrayLike, most: int = ROWS, multiple: int = 8, spare: int = 1) -> tuple[int, ...]:
    """The numbers of rows that waste least, ascending; the last has room for the step of the most rows.

    Args:
        step_rows: the rows of each step, [n].
        most: how many numbers there may be.
        multiple: what each is a multiple of.
        spare: the rows of no example that must have room beside a step's own.
    """
    return _fewest(-(-(_numbers(step_rows) + spare) // multiple) * multiple, most)


def padded(length: int, lengths: Sequence[int]) -> int:
    """The least of some ascending lengths that holds a row of this length."""
    place = bisect_left(lengths, length)
    if place == len(lengths):
        raise WeftError(
            f"a row of {length} tokens; expected at most {lengths[-1]}, the longest padded length"
        )
    return lengths[place]


def waste(tokens: int, longest: ArrayLike, rows: ArrayLike, padded_to: Sequence[tuple[int, int]]) -> Waste:
    """What padding some batches costs.

    Args:
        tokens: the tokens of all of them together.
        longest: the longest row of each batch, [n].
        rows: how many rows each has, [n].
        padded_to: (length, rows) that each is padded to, n pairs.
    """
    tight = int((_numbers(longest) * _numbers(rows)).sum())
    places = int(np.prod(np.asarray(padded_to, np.int64), axis=1).sum())
    return Waste((tight - tokens) / places, (places - tight) / places)


def _numbers(values: ArrayLike) -> Ints:
    found = np.asarray(values, np.int64)
    if found.ndim != 1 or not len(found) or found.min() < 1:
        raise WeftError(f"expected the sizes of one step or more, each at least 1; found {found.tolist()}")
    return found


def _fewest(needed: Ints, most: int) -> tuple[int, ...]:
    """Of the sizes that occur, at most so many, with the least Σ size over the steps."""
    sizes, counts = np.unique(needed, return_counts=True)
    if most < 1:
        raise WeftError(f"expected one size or more; found most={most}")
    if len(sizes) <= most:
        return tuple(sizes.tolist())
    before = np.concatenate([[0], np.cumsum(counts)])  # steps that need a size below each, [m + 1]
    # cost[j]: of the first j sizes, all padded to the chosen ones among them
    cost = np.concatenate([[0], sizes * before[1:]])
    cut_before: list[Ints] = []
    for _ in range(most - 1):
        # one size more: [j, i] is cost(i) + u_j·(steps of the sizes i + 1 … j), for i < j
        every = cost[None, :-1] + sizes[:, None] * (before[1:, None] - before[None, :-1])
        every = np.where(np.tri(len(sizes), dtype=bool), every, np.iinfo(np.int64).max)
        best = every.argmin(1)
        cut_before.append(best)
        cost = np.concatenate([[0], every[np.arange(len(sizes)), best]])
    chosen, end = [], len(sizes)
    for best in reversed(cut_before):
        chosen.append(int(sizes[end - 1]))
        end = int(best[end - 1])
        if end == 0:
            break
    if end:
        chosen.append(int(sizes[end - 1]))
    return tuple(reversed(chosen))
