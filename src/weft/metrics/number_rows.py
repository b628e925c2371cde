"""Row statistics of the metrics of numbers: mean squared error, Pearson's and Spearman's correlation.

All three store the numbers themselves, so a task that reports several of them stores its numbers once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.metrics.rows import Arrays, Evaluator, Floats, Rows, Sums, Units, ratio

_NO_SPREAD = 1e-12
"""A variance below this share of the split's variance is rounding: all weight lies on equal numbers."""
_EXACT = 2**22
"""With at most so many numbers, half ranks are exact in float32."""
_WEIGHTINGS = 256


class Numbers(Rows):
    """What is stored: gold and predicted numbers, [N] or [N, k]."""

    def arrays(self, gold: Any, predictions: Any) -> dict[str, NDArray[Any]]:
        """The numbers of both sides."""
        return {"gold": np.asarray(gold, np.float64), "predicted": np.asarray(predictions, np.float64)}


class SquaredError(Numbers, Sums):
    """The mean of (gold − predicted)² over all numbers."""

    def columns(self, arrays: Arrays) -> NDArray[Any]:
        """The sum of the squared errors of each row and the number of its outputs, [N, 2]."""
        squares = (_by_row(arrays["gold"]) - _by_row(arrays["predicted"])) ** 2
        return np.stack([squares.sum(1), np.full(len(squares), squares.shape[1], np.float64)], 1)

    def value(self, sums: Floats) -> Floats:
        """The mean."""
        return ratio(sums[..., 0], sums[..., 1])


class Pearson(Numbers, Sums):
    """Pearson's correlation from six sums: of 1, x, y, x², y² and x·y.

    x and y are standardized by the split's own mean and spread first, so that no digits cancel.
    """

    def columns(self, arrays: Arrays) -> NDArray[Any]:
        """The six sums over the outputs of each row, [N, 6]."""
        x, y = _standardized(arrays["gold"]), _standardized(arrays["predicted"])
        return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], 1).sum(2)

    def value(self, sums: Floats) -> Floats:
        """The correlation; 0 if all numbers of one side are equal."""
        count, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
        x_spread, y_spread = count * xx - x * x, count * yy - y * y
        varies = (x_spread > _NO_SPREAD * count**2) & (y_spread > _NO_SPREAD * count**2)
        product = np.where(varies, x_spread * y_spread, 0.0)
        return np.clip(ratio(count * xy - x * y, np.sqrt(product)), -1.0, 1.0)


class Spearman(Numbers):
    """Spearman's correlation: Pearson's of weighted mid-ranks.

    The mid-rank of the numbers of a tie group g under weights w is

        rank_g = Σ_{h below g} w_h + (w_g + 1)/2,    w_g the weight of the group

    which is the mean rank of its copies if each number is repeated w times. The order of the numbers does not
    depend on the weights: each run is sorted once, and a cumulative sum of the weights in that order gives
    the ranks of all weightings. Ranks are centred by (Σw + 1)/2, their weighted mean.
    """

    def evaluator(self, runs: Sequence[Arrays], units: Units) -> Evaluator:
        """Sort each run once; equal gold numbers are ranked once for all runs."""
        gold_orders: dict[bytes, _Order] = {}
        sides = []
        for arrays in runs:
            gold = np.ravel(arrays["gold"])
            key = gold.tobytes()
            if key not in gold_orders:
                gold_orders[key] = _Order(gold)
            sides.append((key, _Order(np.ravel(arrays["predicted"]))))
        per_row = _by_row(runs[0]["gold"]).shape[1] if runs else 1
        unit_of_item = units.by_row(per_row)

        def values(weights: Floats) -> Floats:
            # few weightings at a time: the ranks of all numbers should stay in the processor's cache
            parts = [
                some(weights[first : first + _WEIGHTINGS]) for first in range(0, len(weights), _WEIGHTINGS)
            ]
            return np.concatenate(parts) if parts else np.zeros((0, len(sides)))

        def some(weights: Floats) -> Floats:
            dtype = np.float64 if weights.dtype == np.float64 or len(unit_of_item) > _EXACT else np.float32
            # [items, W]: cumulative sums run over whole rows of memory
            items = np.ascontiguousarray(weights.T, dtype)[unit_of_item]
            gold_side = {}
            for key, order in gold_orders.items():
                weight, rank = order.ranks(items)
                spread = (weight * rank * rank).sum(0)
                gold_side[key] = items * order.to_items(rank), spread
            found = np.zeros((weights.shape[0], len(sides)))
            for number, (key, order) in enumerate(sides):
                weighted_gold, gold_spread = gold_side[key]
                weight, rank = order.ranks(items)
                together = order.sums(weighted_gold)
                together *= rank
                weight *= rank
                weight *= rank
                spread = weight.sum(0).astype(np.float64) * gold_spread
                found[:, number] = ratio(together.sum(0).astype(np.float64), np.sqrt(spread))
            return np.clip(found, -1.0, 1.0)

        return values


class _Order:
    """The order of some numbers, and their tie groups.

    Args:
        numbers: [M].
    """

    def __init__(self, numbers: NDArray[Any]) -> None:
        self.order = np.argsort(numbers, kind="stable")
        ordered = numbers[self.order]
        begins = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, bool)
        self.group = np.cumsum(begins) - 1
        self.starts = None if begins.all() else np.flatnonzero(begins)

    def sums(self, items: Floats) -> Floats:
        """Sum [M, W] over the tie groups, in their order, [G, W]; always a new array."""
        ordered = items[self.order]
        return ordered if self.starts is None else np.add.reduceat(ordered, self.starts, axis=0)

    def ranks(self, items: Floats) -> tuple[Floats, Floats]:
        """The weight of each tie group and its centred mid-rank, [G, W] each."""
        weight = self.sums(items)
        rank = _cumulated(weight)
        total = rank[-1:].copy() if len(rank) else np.zeros((1, items.shape[1]), weight.dtype)
        rank -= weight / 2
        rank -= total / 2
        return weight, rank

    def to_items(self, groups: Floats) -> Floats:
        """Give each item what its tie group has, [G, W] → [M, W]."""
        items = np.empty((len(self.order), groups.shape[1]), groups.dtype)
        items[self.order] = groups[self.group]
        return items


def _cumulated(rows: Floats) -> Floats:
    """Cumulative sums down the rows, [G, W].

    In two levels, within √G blocks and over them, so that each addition is one of long rows: ten times as
    fast as `np.cumsum`, which walks down one column after another.
    """
    sums = rows.copy()
    size = max(1, int(len(sums) ** 0.5))
    whole = len(sums) // size * size
    blocks = sums[:whole].reshape(-1, size, sums.shape[1])
    for row in range(1, size):
        blocks[:, row] += blocks[:, row - 1]
    for block in range(1, len(blocks)):
        blocks[block] += blocks[block - 1, -1]
    for row in range(max(1, whole), len(sums)):
        sums[row] += sums[row - 1]
    return sums


def _by_row(numbers: NDArray[Any]) -> NDArray[Any]:
    """[N] or [N, k] as [N, k]."""
    return numbers.reshape(len(numbers), int(np.prod(numbers.shape[1:])))


def _standardized(numbers: NDArray[Any]) -> NDArray[Any]:
    by_row = _by_row(numbers)
    if not by_row.size:
        return by_row
    centred = by_row - by_row.mean()
    spread = np.sqrt(np.mean(centred**2))
    return centred / spread if spread > 0 else centred
