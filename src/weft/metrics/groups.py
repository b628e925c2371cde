"""Metrics of answers that are judged together: MultiRC's, whose questions have several answers each."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from weft.metrics.labels import f1
from weft.metrics.metric import metric


@metric("labels", labels=2)
def f1a(gold: ArrayLike, found: ArrayLike, groups: object = None) -> float:
    """F1 of label 1 over all answers of all questions: MultiRC's F1a, the same as `f1`."""
    return f1(gold, found)


@metric("labels", labels=2, needs_groups=True)
def question_em(gold: ArrayLike, found: ArrayLike, groups: Sequence[Hashable] | None = None) -> float:
    """The share of groups all of whose examples are right: MultiRC's EM; without groups, each its own."""
    right = np.asarray(gold) == np.asarray(found)
    names = range(len(right)) if groups is None else groups
    whole: dict[Hashable, bool] = {}
    for name, good in zip(names, right.tolist(), strict=True):
        whole[name] = whole.get(name, True) and good
    return sum(whole.values()) / len(whole) if whole else 0.0
