"""Metrics of rankings. Gold is one list of relevances per query, predictions one list of scores per query.

Queries differ in their number of candidates. A candidate is relevant if its relevance is above 0. A query
without a relevant candidate counts as 0, because there is nothing to retrieve. A score that is nan counts as
the lowest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.metrics.metric import metric
from weft.metrics.rows import Mean

Lists = Sequence[Sequence[float]]
Measure = Callable[[NDArray[Any], NDArray[Any]], float]
"""From the relevances and the scores of one query to a number."""


def _reciprocal_rank(relevance: NDArray[Any], scores: NDArray[Any]) -> float:
    relevant = relevance > 0
    if not relevant.any():
        return 0.0
    return 1 / (1 + int((scores[~relevant] >= scores[relevant].max()).sum()))


def _first_is_relevant(relevance: NDArray[Any], scores: NDArray[Any]) -> float:
    return float(_reciprocal_rank(relevance, scores) == 1)


def _gain(relevance: NDArray[Any], scores: NDArray[Any]) -> float:
    gains = relevance.clip(0, None)
    if not gains.any():
        return 0.0
    discounts = 1 / np.log2(np.arange(len(gains)) + 2)
    _, position, sizes = np.unique(-scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(sizes)
    shared_discounts = (
        np.diff(np.concatenate([[0.0], np.cumsum(discounts)[ends - 1]])) / sizes
    )  # one per distinct score
    return float((gains * shared_discounts[position]).sum() / (np.sort(gains)[::-1] * discounts).sum())


def _by_query(measure: Measure) -> Callable[[Lists, Lists], list[float]]:
    """Return the function that computes a measure of every query, [N]."""

    def values(gold: Lists, predictions: Lists) -> list[float]:
        values = []
        for relevance, scores in zip(gold, predictions, strict=True):
            score_array = np.asarray(scores, np.float64)
            relevance_array = np.asarray(relevance, np.float64)
            if score_array.shape != relevance_array.shape:
                raise ValueError(
                    f"{relevance_array.shape} relevances but {score_array.shape} scores for one query"
                )
            values.append(measure(relevance_array, np.where(np.isnan(score_array), -np.inf, score_array)))
        return values

    return values


_RECIPROCAL_RANKS = _by_query(_reciprocal_rank)
_FIRST_IS_RELEVANT = _by_query(_first_is_relevant)
_GAINS = _by_query(_gain)


@metric("rankings", rows=Mean(_RECIPROCAL_RANKS))
def mrr(gold: Lists, predictions: Lists, groups: object = None) -> float:
    """The mean of 1/rank of the first relevant candidate; ties are broken against the system.

    rank = 1 + the number of irrelevant candidates whose score is at least that of the best relevant one.
    """
    return _mean(_RECIPROCAL_RANKS(gold, predictions))


@metric("rankings", rows=Mean(_FIRST_IS_RELEVANT))
def p_at_1(gold: Lists, predictions: Lists, groups: object = None) -> float:
    """The share of queries whose first candidate is relevant; ties are broken against the system."""
    return _mean(_FIRST_IS_RELEVANT(gold, predictions))


@metric("rankings", rows=Mean(_GAINS))
def ndcg(gold: Lists, predictions: Lists, groups: object = None) -> float:
    """The mean of DCG/ideal DCG, over all ranks, with linear gains.

    DCG = Σ_rank relevance/log₂(rank + 1). Candidates with equal scores share their ranks: each gets the mean
    of their discounts, which is the mean over all their orders (as in scikit-learn's `ndcg_score`).
    Relevances below 0 count as 0.
    """
    return _mean(_GAINS(gold, predictions))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
