"""Metrics of labels: ids [N], or 0 and 1 for each of C labels, [N, C] (multi-label).

Counts are those of every label: right r, in the gold g, found f. F1 = 2·r/(g + f), 0 where g + f = 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.metrics.metric import metric


@metric("labels", "choices")
def accuracy(gold: ArrayLike, found: ArrayLike, groups: object = None) -> float:
    """The share of right labels."""
    gold, found = _both(gold, found)
    return float((gold == found).mean()) if gold.size else 0.0


@metric("label_sets")
def exact(gold: ArrayLike, found: ArrayLike, groups: object = None) -> float:
    """The share of examples all of whose labels are right."""
    gold, found = _both(gold, found)
    return float((gold == found).reshape(len(gold), -1).all(1).mean()) if gold.size else 0.0


@metric("labels", labels=2)
def f1(gold: ArrayLike, found: ArrayLike, groups: object = None) -> float:
    """F1 of label 1 against label 0: the second of two labels is the one that counts."""
    gold, found = _both(gold, found)
    return f1_of(float(((gold == 1) & (found == 1)).sum()), float((gold == 1).sum() + (found == 1).sum()))


@metric("labels", "label_sets")
def macro_f1(gold: ArrayLike, found: ArrayLike, groups: object = None) -> float:
    """The mean over the labels of each label's F1.

    Of ids, over the labels that occur in the gold or among the answers; of [N, C], over all C.
    """
    right, both = _counts(gold, found)
    return float(np.mean([f1_of(r, b) for r, b in zip(right, both, strict=True)])) if len(right) else 0.0


@metric("label_sets")
def micro_f1(gold: ArrayLike, found: ArrayLike, groups: object = None) -> float:
    """F1 of all labels' counts together."""
    right, both = _counts(gold, found)
    return f1_of(float(right.sum()), float(both.sum()))


@metric("labels")
def matthews(gold: ArrayLike, found: ArrayLike, groups: object = None) -> float:
    """Matthews' correlation, of any number of labels; 0 where all gold labels or all answers are alike.

    MCC = (N·r − Σ g_k·f_k) / √((N² − Σ g_k²)·(N² − Σ f_k²)), r the right ones, k over the labels.
    """
    gold, found = _both(gold, found)
    labels = np.union1d(gold, found)
    theirs = (gold[:, None] == labels).sum(0).astype(float)
    ours = (found[:, None] == labels).sum(0).astype(float)
    count = float(len(gold))
    under = (count**2 - (theirs**2).sum()) * (count**2 - (ours**2).sum())
    right = float((gold == found).sum())
    return float((count * right - theirs @ ours) / np.sqrt(under)) if under > 0 else 0.0


def f1_of(right: float, both: float) -> float:
    """2·right/(gold + found); 0 where there is neither."""
    return 2 * right / both if both else 0.0


def _counts(gold: ArrayLike, found: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """For each label, how many are right, and how many there are in the gold and among the answers."""
    gold, found = _both(gold, found)
    if gold.ndim == 1:
        labels = np.union1d(gold, found)
        gold, found = gold[:, None] == labels, found[:, None] == labels
    gold, found = gold == 1, found == 1
    return (gold & found).sum(0), gold.sum(0) + found.sum(0)


def _both(gold: ArrayLike, found: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    gold, found = np.asarray(gold), np.asarray(found)
    if gold.shape != found.shape:
        raise ValueError(f"{gold.shape} right labels and {found.shape} answers")
    return gold, found
