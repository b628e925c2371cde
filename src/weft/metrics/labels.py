"""Metrics of labels: ids [N], or 0 and 1 for each of C labels, [N, C] (multi-label).

Per label, r is the number of right predictions, g the number of gold labels and p the number of predictions.
F1 = 2·r/(g + p), and 0 if g + p = 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.metrics.label_rows import MacroF1, Matthews
from weft.metrics.metric import metric
from weft.metrics.rows import Mean, Ratio


def _right(gold: ArrayLike, predictions: ArrayLike) -> NDArray[Any]:
    """Whether all labels of each row are right, [N]."""
    gold, predictions = _both(gold, predictions)
    return (gold == predictions).reshape(len(gold), -1).all(1) if gold.size else np.zeros(len(gold), bool)


def _label_counts(gold: ArrayLike, predictions: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """2·right and gold + predicted labels of each row, [N] each; a label id is one label."""
    gold, predictions = _both(gold, predictions)
    if gold.ndim == 1:
        return 2 * (gold == predictions), np.full(len(gold), 2)
    return _positive_counts(gold, predictions)


def _positive_counts(gold: ArrayLike, predictions: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """2·right and gold + predicted of the label 1 of each row, [N] each."""
    gold, predictions = _both(gold, predictions)
    is_gold, is_predicted = np.atleast_2d((gold == 1).T).T, np.atleast_2d((predictions == 1).T).T
    return 2 * (is_gold & is_predicted).sum(1), is_gold.sum(1) + is_predicted.sum(1)


POSITIVE_F1 = Ratio(_positive_counts)
"""Row statistics of the F1 of label 1."""


@metric("labels", "choices", rows=Mean(lambda gold, predictions: np.equal(*_both(gold, predictions))))
def accuracy(gold: ArrayLike, predictions: ArrayLike, groups: object = None) -> float:
    """The share of right labels."""
    gold, predictions = _both(gold, predictions)
    return float((gold == predictions).mean()) if gold.size else 0.0


@metric("label_sets", rows=Mean(_right))
def exact(gold: ArrayLike, predictions: ArrayLike, groups: object = None) -> float:
    """The share of examples whose labels are all right."""
    gold, predictions = _both(gold, predictions)
    return float((gold == predictions).reshape(len(gold), -1).all(1).mean()) if gold.size else 0.0


@metric("labels", labels=2, rows=POSITIVE_F1)
def f1(gold: ArrayLike, predictions: ArrayLike, groups: object = None) -> float:
    """F1 of label 1, the second of two labels, which is the positive class."""
    gold, predictions = _both(gold, predictions)
    return f1_of(
        float(((gold == 1) & (predictions == 1)).sum()), float((gold == 1).sum() + (predictions == 1).sum())
    )


@metric("labels", "label_sets", rows=MacroF1())
def macro_f1(gold: ArrayLike, predictions: ArrayLike, groups: object = None) -> float:
    """The mean of the labels' F1.

    For ids, the mean is over the labels that occur in the gold or in the predictions; for [N, C], over all C.
    """
    right, both = _counts(gold, predictions)
    return float(np.mean([f1_of(r, b) for r, b in zip(right, both, strict=True)])) if len(right) else 0.0


@metric("label_sets", rows=Ratio(_label_counts))
def micro_f1(gold: ArrayLike, predictions: ArrayLike, groups: object = None) -> float:
    """F1 of the counts summed over all labels."""
    right, both = _counts(gold, predictions)
    return f1_of(float(right.sum()), float(both.sum()))


@metric("labels", rows=Matthews())
def matthews(gold: ArrayLike, predictions: ArrayLike, groups: object = None) -> float:
    """Matthews' correlation for any number of labels; 0 if all gold labels or all predictions are equal.

    MCC = (N·r − Σ g_k·p_k) / √((N² − Σ g_k²)·(N² − Σ p_k²)), r the right predictions, k over the labels.
    """
    gold, predictions = _both(gold, predictions)
    labels = np.union1d(gold, predictions)
    gold_counts = (gold[:, None] == labels).sum(0).astype(float)
    predicted_counts = (predictions[:, None] == labels).sum(0).astype(float)
    count = float(len(gold))
    product = (count**2 - (gold_counts**2).sum()) * (count**2 - (predicted_counts**2).sum())
    right = float((gold == predictions).sum())
    return float((count * right - gold_counts @ predicted_counts) / np.sqrt(product)) if product > 0 else 0.0


def f1_of(right: float, both: float) -> float:
    """Return 2·right/both with both = gold + predicted; 0 if there are none."""
    return 2 * right / both if both else 0.0


def _counts(gold: ArrayLike, predictions: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Per label: how many are right, and how many there are in the gold and the predictions together."""
    gold, predictions = _both(gold, predictions)
    if gold.ndim == 1:
        labels = np.union1d(gold, predictions)
        gold, predictions = gold[:, None] == labels, predictions[:, None] == labels
    gold, predictions = gold == 1, predictions == 1
    return (gold & predictions).sum(0), gold.sum(0) + predictions.sum(0)


def _both(gold: ArrayLike, predictions: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    gold, predictions = np.asarray(gold), np.asarray(predictions)
    if gold.shape != predictions.shape:
        raise ValueError(f"{gold.shape} gold labels and {predictions.shape} predictions")
    return gold, predictions
