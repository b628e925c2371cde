"""Choose a few padded sizes for the batches of a run, so that each is compiled once and padding is small.

A step whose longest row has n tokens is padded to the smallest of the chosen lengths that is at least n. Of
all sets of at most k lengths, dynamic programming finds the one with the smallest Σ padded length over the
steps. With u_1 < … < u_m the lengths that occur, rounded up, and c_i the number of steps of each,

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
"""The maximum number of padded lengths, and of padded row counts."""


class Waste(NamedTuple):
    """The fractions of all token positions that are padding.

    Attributes:
        within: padding because rows of one batch differ in length.
        rounding: padding because a batch is padded to one of a few lengths and row counts.
    """

    within: float
    rounding: float

    @property
    def total(self) -> float:
        """The fraction of all token positions that are padding."""
        return self.within + self.rounding


def choose_lengths(
    step_lengths: ArrayLike, most: int = LENGTHS, multiple: int = 8, limit: int | None = None
) -> tuple[int, ...]:
    """Choose the padded lengths with the least padding, ascending; the last fits the longest step.

    Args:
        step_lengths: the longest row of each step, or of a sample that includes the longest, [n].
        most: the maximum number of lengths.
        multiple: each length is a multiple of this, for which kernels are faster.
        limit: the longest row that the model accepts; longer lengths are reduced to it.
    """
    needed = -(-_sizes(step_lengths) // multiple) * multiple
    return _fewest(needed if limit is None else np.minimum(needed, limit), most)


def choose_rows(step_rows: ArrayLike, most: int = ROWS, multiple: int = 8, spare: int = 1) -> tuple[int, ...]:
    """Choose the padded row counts with the least padding, ascending; the last fits the largest step.

    Args:
        step_rows: the number of rows of each step, [n].
        most: the maximum number of row counts.
        multiple: each row count is a multiple of this.
        spare: additional rows, of no example, that must fit.
    """
    return _fewest(-(-(_sizes(step_rows) + spare) // multiple) * multiple, most)


def padded(length: int, lengths: Sequence[int]) -> int:
    """The smallest of some ascending lengths that fits a row of this length."""
    position = bisect_left(lengths, length)
    if position == len(lengths):
        raise WeftError(
            f"a row of {length} tokens; expected at most {lengths[-1]}, the longest padded length"
        )
    return lengths[position]


def waste(tokens: int, longest: ArrayLike, rows: ArrayLike, padded_to: Sequence[tuple[int, int]]) -> Waste:
    """Measure how much padding some batches have.

    Args:
        tokens: the number of tokens of all batches together.
        longest: the longest row of each batch, [n].
        rows: the number of rows of each batch, [n].
        padded_to: the (length, rows) that each batch is padded to, n pairs.
    """
    tight = int((_sizes(longest) * _sizes(rows)).sum())
    positions = int(np.prod(np.asarray(padded_to, np.int64), axis=1).sum())
    return Waste((tight - tokens) / positions, (positions - tight) / positions)


def _sizes(values: ArrayLike) -> Ints:
    sizes = np.asarray(values, np.int64)
    if sizes.ndim != 1 or not len(sizes) or sizes.min() < 1:
        raise WeftError(f"expected the sizes of one step or more, each at least 1; found {sizes.tolist()}")
    return sizes


def _fewest(needed: Ints, most: int) -> tuple[int, ...]:
    """At most `most` of the sizes that occur, with the smallest Σ padded size over the steps."""
    sizes, counts = np.unique(needed, return_counts=True)
    if most < 1:
        raise WeftError(f"expected one size or more; found most={most}")
    if len(sizes) <= most:
        return tuple(sizes.tolist())
    before = np.concatenate([[0], np.cumsum(counts)])  # number of steps that need a smaller size, [m + 1]
    # cost[j]: the cost of the steps of the first j sizes, padded to the chosen sizes among these
    cost = np.concatenate([[0], sizes * before[1:]])
    cut_before: list[Ints] = []
    for _ in range(most - 1):
        # with one more size: [j, i] is cost(i) + u_j·(steps of the sizes i + 1 … j), for i < j
        costs = cost[None, :-1] + sizes[:, None] * (before[1:, None] - before[None, :-1])
        costs = np.where(np.tri(len(sizes), dtype=bool), costs, np.iinfo(np.int64).max)
        best = costs.argmin(1)
        cut_before.append(best)
        cost = np.concatenate([[0], costs[np.arange(len(sizes)), best]])
    chosen, end = [], len(sizes)
    for best in reversed(cut_before):
        chosen.append(int(sizes[end - 1]))
        end = int(best[end - 1])
        if end == 0:
            break
    if end:
        chosen.append(int(sizes[end - 1]))
    return tuple(reversed(chosen))
