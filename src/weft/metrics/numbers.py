"""Metrics of numbers, [N] or [N, k]."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.metrics.metric import metric


@metric("numbers")
def pearson(gold: ArrayLike, found: ArrayLike, groups: object = None) -> float:
    """Pearson's correlation, over all outputs together; 0 where all answers are alike."""
    from scipy.stats import pearsonr

    gold, found = _numbers(gold), _numbers(found)
    return 0.0 if _constant(gold, found) else _finite(pearsonr(gold, found).statistic)


@metric("numbers")
def spearman(gold: ArrayLike, found: ArrayLike, groups: object = None) -> float:
    """Spearman's rank correlation, over all outputs together; 0 where all answers are alike."""
    from scipy.stats import spearmanr

    gold, found = _numbers(gold), _numbers(found)
    return 0.0 if _constant(gold, found) else _finite(spearmanr(gold, found).statistic)


@metric("numbers", lower_is_better=True)
def mse(gold: ArrayLike, found: ArrayLike, groups: object = None) -> float:
    """The mean squared error."""
    gold, found = _numbers(gold), _numbers(found)
    return float(((gold - found) ** 2).mean()) if gold.size else 0.0


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, np.float64).ravel()


def _constant(gold: NDArray[np.float64], found: NDArray[np.float64]) -> bool:
    # a correlation needs two points that differ; nan would poison every average
    return gold.size < 2 or bool(np.ptp(gold) == 0 or np.ptp(found) == 0)


def _finite(value: float) -> float:
    # numbers that differ by less than their rounding are alike too
    return float(value) if math.isfinite(value) else 0.0
