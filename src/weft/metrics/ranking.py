"""Metrics of rankings. Gold is a list of relevances for each query, found a list of scores; lengths vary.

A candidate is relevant if its relevance is above 0. A query without a relevant candidate counts 0, for there
is nothing that could be found. A score that is no number counts as the lowest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.metrics.metric import metric

Lists = Sequence[Sequence[float]]


@metric("rankings")
def mrr(gold: Lists, found: Lists, groups: object = None) -> float:
    """The mean of 1/rank of the first relevant candidate; ties are broken against the system.

    rank = 1 + the number of irrelevant candidates that score as high or higher than the best relevant one.
    """
    return _mean(_reciprocal_rank, gold, found)


@metric("rankings")
def p_at_1(gold: Lists, found: Lists, groups: object = None) -> float:
    """The share of queries whose first candidate is relevant; ties are broken against the system."""
    return _mean(lambda relevance, scores: float(_reciprocal_rank(relevance, scores) == 1), gold, found)


@metric("rankings")
def ndcg(gold: Lists, found: Lists, groups: object = None) -> float:
    """The mean of DCG/ideal DCG, over all ranks, with linear gains.

    DCG = Σ_rank relevance/log₂(rank + 1). Candidates of equal score share their ranks: each counts by the
    mean of their discounts, which is the mean over all orders of them (as scikit-learn's `ndcg_score`).
    Relevances below 0 count as 0.
    """
    return _mean(_gain, gold, found)


def _reciprocal_rank(relevance: NDArray[Any], scores: NDArray[Any]) -> float:
    relevant = relevance > 0
    if not relevant.any():
        return 0.0
    return 1 / (1 + int((scores[~relevant] >= scores[relevant].max()).sum()))


def _gain(relevance: NDArray[Any], scores: NDArray[Any]) -> float:
    gains = relevance.clip(0, None)
    if not gains.any():
        return 0.0
    discounts = 1 / np.log2(np.arange(len(gains)) + 2)
    _, place, sizes = np.unique(-scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    shared = np.diff(np.concatenate([[0.0], np.cumsum(discounts)[ends - 1]])) / sizes  # of each score
    return float((gains * shared[place]).sum() / (np.sort(gains)[::-1] * discounts).sum())


def _mean(measure: Callable[[NDArray[Any], NDArray[Any]], float], gold: Lists, found: Lists) -> float:
    values = []
    for relevance, scores in zip(gold, found, strict=True):
        ours = np.asarray(scores, np.float64)
        theirs = np.asarray(relevance, np.float64)
        if ours.shape != theirs.shape:
            raise ValueError(f"{theirs.shape} relevances and {ours.shape} scores of one query")
        values.append(measure(theirs, np.where(np.isnan(ours), -np.inf, ours)))
    return sum(values) / len(values) if values else 0.0
