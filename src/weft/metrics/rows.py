"""Row statistics: what a metric needs to know about each row, so that it can be computed under row weights.

A bootstrap over rows asks for the value of a metric on thousands of resampled splits. A resampled split is
the same split with a whole number as the weight of each unit. A metric declares its row statistics beside
its function (`@metric(…, rows=…)`), and they are stored once per run:

    arrays(gold, predictions)          small arrays, stored with the run
    evaluator(runs, units)(weights)    the metric of R runs under W weightings, [W, R]

Two rules hold for all of them, and one test checks both for every registered metric:

- if all weights are 1, the value is the metric's;
- if the weights are whole numbers, it is the metric of the split in which each unit is repeated that often.

The **unit** that is resampled is a row (an example of the task), or a group of rows that are judged together
(the answers to one question of MultiRC): rows of one group are not independent.

Most metrics are functions of sums over rows (`Sums`): one matrix product computes the sums of all runs under
all weightings. `Mean` and `Ratio` are the two usual cases.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Arrays = Mapping[str, NDArray[Any]]
"""The stored arrays of one metric of one run, by name."""
Floats = NDArray[Any]
Evaluator = Callable[[Floats], Floats]
"""From weights [W, U] to the metric of each run, [W, R]."""

_EXACT = 2**24
"""float32 holds every whole number up to this one."""
_COLUMNS = 512
"""The columns of one matrix product; bounds the memory for their conversion to floats."""


@dataclass(frozen=True)
class Units:
    """The units that are resampled: rows, or groups of rows.

    Attributes:
        count: their number U.
        of: the unit of each row, [N], numbered by first appearance; None: each row is a unit.
    """

    count: int
    of: NDArray[np.int64] | None = None

    @classmethod
    def of_groups(cls, groups: Sequence[Hashable] | None, rows: int) -> Units:
        """Return the units of a split with this many rows; rows with equal `groups` are one unit."""
        if groups is None:
            return cls(rows)
        numbers: dict[Hashable, int] = {}
        of = np.array([numbers.setdefault(group, len(numbers)) for group in groups], np.int64)
        return cls(rows) if len(numbers) == rows else cls(len(numbers), of)

    def sums(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Sum what belongs to rows, [N, k], over the rows of each unit, [U, k]."""
        if self.of is None:
            return rows
        sums = np.zeros((self.count, *rows.shape[1:]), np.float64 if rows.dtype.kind == "f" else np.int64)
        np.add.at(sums, self.of, rows)
        return sums

    def by_row(self, per_row: int = 1) -> NDArray[np.int64]:
        """The unit of each item, if each row has this many items, [N·per_row]."""
        of = np.arange(self.count) if self.of is None else self.of
        return np.repeat(of, per_row)


class Rows(ABC):
    """The row statistics of a metric."""

    @abstractmethod
    def arrays(self, gold: Any, predictions: Any) -> dict[str, NDArray[Any]]:
        """Return what is stored of a run: arrays of booleans, integers or floats.

        Args:
            gold: the N correct answers, as the metric takes them.
            predictions: the model's N answers.
        """

    @abstractmethod
    def evaluator(self, runs: Sequence[Arrays], units: Units) -> Evaluator:
        """Prepare R runs of the same split, and return the function from weights [W, U] to values [W, R].

        Weights in float64 give the metric to rounding. In float32 the values may differ by about 1e-5, which
        a bootstrap does not notice.
        """


class Sums(Rows):
    """A metric that is a function of weighted sums over rows: value(Σ_u w_u·columns[u])."""

    @abstractmethod
    def columns(self, arrays: Arrays) -> NDArray[Any]:
        """Return what is summed, [N, k], integers or floats."""

    @abstractmethod
    def value(self, sums: Floats) -> Floats:
        """Return the metric from the sums, [..., k] → [...]; 0 where a denominator is 0."""

    def evaluator(self, runs: Sequence[Arrays], units: Units) -> Evaluator:
        """Stack the columns of all runs. Equal columns, such as counts of gold labels, are summed once."""
        numbers: dict[bytes, int] = {}
        distinct: list[NDArray[Any]] = []
        places: list[list[int]] = []
        for arrays in runs:
            columns = units.sums(self.columns(arrays))
            place = []
            for column in columns.T:
                small = _narrow(column)
                key = small.dtype.str.encode() + small.tobytes()
                if key not in numbers:
                    numbers[key] = len(distinct)
                    distinct.append(small)
                place.append(numbers[key])
            places.append(place)
        whole = all(column.dtype.kind != "f" for column in distinct)
        largest = max((int(np.abs(c.astype(np.int64)).max(initial=0)) for c in distinct if whole), default=0)
        exact = np.float32 if whole and largest * units.count < _EXACT else np.float64

        def values(weights: Floats) -> Floats:
            weights = weights.astype(np.promote_types(exact, weights.dtype), copy=False)
            sums = np.empty((len(weights), len(distinct)))
            for first in range(0, len(distinct), _COLUMNS):
                some = np.stack(distinct[first : first + _COLUMNS]).astype(weights.dtype)
                sums[:, first : first + _COLUMNS] = weights @ some.T
            if len({len(place) for place in places}) == 1:
                return self.value(sums[:, np.array(places)])
            return np.stack([self.value(sums[:, place]) for place in places], 1)

        return values


class Ratio(Sums):
    """Σ numerators / Σ denominators; 0 if the denominators are 0.

    Args:
        parts: `f(gold, predictions) -> (numerators [N], denominators [N])`.

    Example:
        `@metric("entities", rows=Ratio(lambda gold, predictions: (right, gold_count + predicted_count)))`
    """

    def __init__(self, parts: Callable[[Any, Any], tuple[ArrayLike, ArrayLike]]) -> None:
        self.parts = parts

    def arrays(self, gold: Any, predictions: Any) -> dict[str, NDArray[Any]]:
        """The numerators and the denominators."""
        numerators, denominators = self.parts(gold, predictions)
        return {"numerator": np.asarray(numerators), "denominator": np.asarray(denominators)}

    def columns(self, arrays: Arrays) -> NDArray[Any]:
        """The numerators and the denominators, [N, 2]."""
        return np.stack([_numeric(arrays["numerator"]), _numeric(arrays["denominator"])], 1)

    def value(self, sums: Floats) -> Floats:
        """The ratio of the sums."""
        return ratio(sums[..., 0], sums[..., 1])


class Mean(Sums):
    """The mean over rows of a value of each row.

    Args:
        by_row: `f(gold, predictions) -> [N]`, or [N, k] for the mean over k values of each row too.

    Example:
        `@metric("labels", rows=Mean(lambda gold, predictions: np.equal(gold, predictions)))`
    """

    def __init__(self, by_row: Callable[[Any, Any], ArrayLike]) -> None:
        self.by_row = by_row

    def arrays(self, gold: Any, predictions: Any) -> dict[str, NDArray[Any]]:
        """The values of the rows."""
        return {"value": np.asarray(self.by_row(gold, predictions))}

    def columns(self, arrays: Arrays) -> NDArray[Any]:
        """The sum of the values of each row and their number, [N, 2]."""
        values = _numeric(arrays["value"])
        items = values.reshape(len(values), int(np.prod(values.shape[1:])))
        return np.stack([items.sum(1), np.full(len(items), items.shape[1], items.dtype)], 1)

    def value(self, sums: Floats) -> Floats:
        """The mean."""
        return ratio(sums[..., 0], sums[..., 1])


def ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Return numerator/denominator, elementwise; 0 where the denominator is not above 0."""
    return np.divide(numerator, denominator, out=np.zeros(np.shape(numerator)), where=denominator > 0)


def _numeric(values: NDArray[Any]) -> NDArray[Any]:
    """Integers as int64 and floats as float64, so that sums do not overflow."""
    return values.astype(np.float64 if values.dtype.kind == "f" else np.int64)


def _narrow(column: NDArray[Any]) -> NDArray[Any]:
    """A contiguous column; small integers in one byte each."""
    if column.dtype.kind != "f" and len(column) and column.min() >= 0 and column.max() < 256:
        return column.astype(np.uint8)
    return np.ascontiguousarray(column)
