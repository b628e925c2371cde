"""Errors of numbers: residuals, prediction − gold, over all rows and by the size of the gold value."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.evaluation.errors.analysis import COUNT, NUMBER, TEXT, Analysis, Table

PARTS = 10
"""The gold values are divided into so many parts of about equal size."""
BARS = 20
"""The number of bars of the histogram."""


class NumberErrors(Analysis):
    """One number per example, [N], or several, [N, k]. A number is neither right nor wrong."""

    kinds = ()
    counts_errors = False
    measure = "largest absolute residual"

    def _sides(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Gold and predictions, [N, k]."""
        gold, predicted = (
            np.asarray(side, np.float64).reshape(len(self.answered), -1)
            for side in (self.answered.gold, self.answered.predictions)
        )
        return gold, predicted

    def errors(self) -> list[list[str]]:
        """None."""
        return [[] for _ in range(len(self.answered))]

    def _outputs(self, count: int) -> tuple[str, ...]:
        columns = self.task.label_columns
        return columns if len(columns) == count else tuple(str(k) for k in range(count))

    def tables(self) -> list[Table]:
        """Residuals of each output: in all, by tenths of the gold values, and their histogram."""
        gold, predicted = self._sides()
        residuals = predicted - gold
        names = self._outputs(gold.shape[1])
        every, by_value, bars = [], [], []
        for k, name in enumerate(names):
            every.append((name, *_facts(residuals[:, k]), _spread(residuals[:, k], gold[:, k])))
            for part in _parts(gold[:, k]):
                truth = gold[part, k]
                means = (float(truth.mean()), float(predicted[part, k].mean()))
                ends = (float(truth.min()), float(truth.max()))
                by_value.append((name, *ends, *means, *_facts(residuals[part, k])))
            counts, edges = np.histogram(residuals[:, k], bins=BARS)
            bars += [(name, float(edges[b]), float(edges[b + 1]), int(counts[b])) for b in range(len(counts))]
        output, facts = ("output", TEXT), tuple((column, NUMBER) for column in FACTS)
        facts = (("examples", COUNT), *facts)
        ends_and_means = tuple((n, NUMBER) for n in ("from", "to", "mean gold", "mean predicted"))
        return [
            Table(
                "residuals", "Residuals: prediction − gold", (output, *facts, ("explained", NUMBER)), every
            ),
            Table("by_value", "Residuals by gold value", (output, *ends_and_means, *facts), by_value),
            Table(
                "histogram",
                "Histogram of residuals",
                (output, ("from", NUMBER), ("to", NUMBER), ("examples", COUNT)),
                bars,
            ),
        ]

    def severity(self) -> NDArray[np.float64]:
        """The largest absolute residual of each example, [N]."""
        gold, predicted = self._sides()
        return np.abs(predicted - gold).max(1, initial=0.0)

    def gold(self, i: int) -> Any:
        """The number, or a list of several."""
        return _plain(self.answered.gold[i])

    def predicted(self, i: int) -> Any:
        """The number, or a list of several."""
        return _plain(self.answered.predictions[i])


FACTS = ("bias", "mean absolute", "root mean square", "largest")
"""The columns of residuals: their mean, the mean of |r|, √(mean of r²), and the largest |r|."""


def _parts(gold: NDArray[np.float64]) -> list[NDArray[np.bool_]]:
    """Which rows are in each part, at most `PARTS` times [N]; equal values are in one part."""
    edges = np.unique(np.quantile(gold, np.arange(1, PARTS) / PARTS))
    part = np.searchsorted(edges, gold, side="right")
    return [part == number for number in np.unique(part)]


def _facts(residuals: NDArray[np.float64]) -> tuple[Any, ...]:
    sizes = np.abs(residuals)
    root = float(np.sqrt(np.square(residuals).mean()))
    return len(residuals), float(residuals.mean()), float(sizes.mean()), root, float(sizes.max())


def _spread(residuals: NDArray[np.float64], gold: NDArray[np.float64]) -> float | None:
    """R² = 1 − Σ r²/Σ (y − mean y)²; None if all gold values are equal."""
    total = float(np.square(gold - gold.mean()).sum())
    return 1 - float(np.square(residuals).sum()) / total if total else None


def _plain(value: Any) -> Any:
    numbers = np.asarray(value, np.float64)
    return float(numbers) if numbers.ndim == 0 else [float(x) for x in numbers]
