"""Rankings beside scikit-learn, and the rule for ties by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score

from weft.metrics import score

NAMES = ["mrr", "ndcg", "p_at_1"]
candidates = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([-1.5, 0.0, 0.5, 2.0])), min_size=2, max_size=8
)
queries = st.lists(candidates, min_size=1, max_size=6)


def lists(made):
    return [[r for r, _ in one] for one in made], [[s for _, s in one] for one in made]


@given(queries)
def test_ndcg_is_scikit_learns_with_linear_gains(made):
    gold, predictions = lists(made)
    expected = np.mean([ndcg_score([r], [s]) for r, s in zip(gold, predictions, strict=True)])
    assert score(["ndcg"], gold, predictions)["ndcg"] == pytest.approx(expected)


@given(st.integers(2, 8).flatmap(lambda n: st.tuples(st.integers(0, n - 1), st.permutations(list(range(n))))))
def test_with_one_relevant_candidate(made):
    """Then average precision is the reciprocal rank."""
    right, scores = made
    gold = [[int(i == right) for i in range(len(scores))]]
    metrics = score(NAMES, gold, [scores])
    assert metrics["mrr"] == pytest.approx(
        label_ranking_average_precision_score(np.array(gold), np.array([scores]))
    )
    assert metrics["p_at_1"] == float(scores[right] == max(scores))


@given(queries)
def test_ties_count_against_the_system(made):
    gold, predictions = lists(made)
    metrics = score(NAMES, gold, predictions)
    ranks = []
    for relevance, scores in zip(gold, predictions, strict=True):
        # the worst order of the candidates that the scores allow
        order = sorted(zip(scores, relevance, strict=True), key=lambda pair: (-pair[0], pair[1] > 0))
        ranks.append(next((1 / n for n, (_, r) in enumerate(order, 1) if r > 0), 0.0))
    assert metrics["mrr"] == pytest.approx(np.mean(ranks))
    assert metrics["p_at_1"] == pytest.approx(np.mean([rank == 1 for rank in ranks]))
    assert all(0 <= value <= 1 for value in metrics.values())


def test_by_hand():
    assert score(NAMES, [[0, 1, 0]], [[0.9, 0.5, 0.1]]) == {
        "mrr": 0.5,
        "ndcg": pytest.approx(1 / math.log2(3)),
        "p_at_1": 0.0,
    }
    assert score(["mrr"], [[0, 0, 1, 1]], [[3, 3, 3, 3]]) == {"mrr": 1 / 3}
    graded = 3 / math.log2(3) + 1
    assert score(["ndcg"], [[1, 3]], [[2, 1]]) == {"ndcg": pytest.approx(graded / (3 + 1 / math.log2(3)))}


def test_odd_queries():
    one = dict.fromkeys(NAMES, 1.0)
    assert score(NAMES, [[1]], [[0.3]]) == one
    assert score(NAMES, [[2]], [[-math.inf]]) == one
    none = dict.fromkeys(NAMES, 0.0)
    for gold, predictions in (
        ([[0]], [[0.3]]),
        ([[0, 0]], [[1, 2]]),
        ([[]], [[]]),
        ([], []),
        ([[-1, -2]], [[1, 2]]),
    ):
        assert score(NAMES, gold, predictions) == none
    metrics = score(NAMES, [[1, 0]], [[math.nan, 0.1]])  # a score that is no number is the lowest
    assert metrics == {"mrr": 0.5, "ndcg": pytest.approx(1 / math.log2(3)), "p_at_1": 0.0}
    assert score(["mrr"], [[1, 0]], [[math.nan, math.nan]]) == {"mrr": 0.5}
    with pytest.raises(ValueError, match="for one query"):
        score(["mrr"], [[1, 0]], [[1]])
