"""The metrics, each over all answers of a split: never averaged over batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Metric = Callable[[NDArray[np.float64], NDArray[np.float64]], float]


def accuracy(gold: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """The share of right labels."""
    return float((gold == found).mean())


def f1(gold: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """F1 of label 1 against label 0: the second of two labels is the one that counts."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, found, zero_division=0.0))


def macro_f1(gold: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """The mean over the labels of each label's F1."""
    from sklearn.metrics import f1_score

    return float(f1_score(gold, found, average="macro", zero_division=0.0))


def matthews(gold: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """Matthews' correlation; 0 where all answers are alike."""
    from sklearn.metrics import matthews_corrcoef

    return 0.0 if _constant(gold, found) else float(matthews_corrcoef(gold, found))


def pearson(gold: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """Pearson's correlation, over all outputs together; 0 where all answers are alike."""
    from scipy.stats import pearsonr

    return 0.0 if _constant(gold, found) else float(pearsonr(gold.ravel(), found.ravel()).statistic)


def spearman(gold: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """Spearman's rank correlation, over all outputs together; 0 where all answers are alike."""
    from scipy.stats import spearmanr

    return 0.0 if _constant(gold, found) else float(spearmanr(gold.ravel(), found.ravel()).statistic)


def mse(gold: NDArray[np.float64], found: NDArray[np.float64]) -> float:
    """The mean squared error."""
    return float(((gold - found) ** 2).mean())


def _constant(gold: NDArray[np.float64], found: NDArray[np.float64]) -> bool:
    # a correlation needs two points that differ; nan would poison every average
    return gold.size < 2 or bool(np.ptp(gold) == 0 or np.ptp(found) == 0)


METRICS: Mapping[str, Metric] = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
    "mse": mse,
}
LOWER_IS_BETTER = ("mse",)


def score(names: Sequence[str], gold: ArrayLike, found: ArrayLike) -> dict[str, float]:
    """Each metric by name.

    Args:
        names: some of `METRICS`.
        gold: the right answers of the whole split, [N] or [N, k].
        found: the model's answers, of the same shape: label ids, or numbers.
    """
    gold, found = np.asarray(gold, np.float64), np.asarray(found, np.float64)
    return {name: METRICS[name](gold, found) for name in names}
