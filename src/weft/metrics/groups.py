"""Metrics of answers that are judged in groups: MultiRC has several answers per question."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from weft.metrics.label_rows import AllRight
from weft.metrics.labels import POSITIVE_F1, f1
from weft.metrics.metric import metric


@metric("labels", labels=2, rows=POSITIVE_F1)
def f1a(gold: ArrayLike, predictions: ArrayLike, groups: object = None) -> float:
    """F1 of label 1 over all answers of all questions: MultiRC's F1a, the same as `f1`."""
    return f1(gold, predictions)


@metric("labels", labels=2, needs_groups=True, rows=AllRight())
def question_em(gold: ArrayLike, predictions: ArrayLike, groups: Sequence[Hashable] | None = None) -> float:
    """The share of groups whose examples are all right: MultiRC's EM; without groups, of examples."""
    right = np.asarray(gold) == np.asarray(predictions)
    names = range(len(right)) if groups is None else groups
    all_right: dict[Hashable, bool] = {}
    for name, is_right in zip(names, right.tolist(), strict=True):
        all_right[name] = all_right.get(name, True) and is_right
    return sum(all_right.values()) / len(all_right) if all_right else 0.0
