"""Metrics of numbers, [N] or [N, k]."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.metrics.metric import metric
from weft.metrics.number_rows import Pearson, Spearman, SquaredError


@metric("numbers", rows=Pearson())
def pearson(gold: ArrayLike, predictions: ArrayLike, groups: object = None) -> float:
    """Pearson's correlation over all outputs together; 0 if all gold numbers or all predictions are equal."""
    from scipy.stats import pearsonr

    gold, predictions = _numbers(gold), _numbers(predictions)
    return 0.0 if _constant(gold, predictions) else _finite(pearsonr(gold, predictions).statistic)


@metric("numbers", rows=Spearman())
def spearman(gold: ArrayLike, predictions: ArrayLike, groups: object = None) -> float:
    """Spearman's rank correlation over all outputs together; 0 if all numbers of one side are equal."""
    from scipy.stats import spearmanr

    gold, predictions = _numbers(gold), _numbers(predictions)
    return 0.0 if _constant(gold, predictions) else _finite(spearmanr(gold, predictions).statistic)


@metric("numbers", lower_is_better=True, rows=SquaredError())
def mse(gold: ArrayLike, predictions: ArrayLike, groups: object = None) -> float:
    """The mean squared error."""
    gold, predictions = _numbers(gold), _numbers(predictions)
    return float(((gold - predictions) ** 2).mean()) if gold.size else 0.0


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, np.float64).ravel()


def _constant(gold: NDArray[np.float64], predictions: NDArray[np.float64]) -> bool:
    # a correlation needs two different points; a nan would turn every average into nan
    return gold.size < 2 or bool(np.ptp(gold) == 0 or np.ptp(predictions) == 0)


def _finite(value: float) -> float:
    # numbers that differ by less than rounding count as equal too
    return float(value) if math.isfinite(value) else 0.0
