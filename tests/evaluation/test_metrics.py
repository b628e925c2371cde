from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as oracle

from weft.evaluation.metrics import score

labels = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60)
numbers = st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=3, max_size=60)


@given(labels)
def test_two_labels(pairs):
    gold, found = np.array(pairs).T
    told = score(["accuracy", "f1", "matthews"], gold, found)
    right = sum(a == b for a, b in pairs)
    hit = sum(a == b == 1 for a, b in pairs)
    wrong = len(pairs) - right
    assert told["accuracy"] == pytest.approx(right / len(pairs))
    assert told["f1"] == pytest.approx(2 * hit / (2 * hit + wrong) if hit else 0.0)
    assert told["matthews"] == pytest.approx(oracle.matthews_corrcoef(gold, found))


@given(numbers)
def test_correlations(pairs):
    gold, found = np.array(pairs).T
    told = score(["pearson", "spearman", "mse"], gold, found)
    assert all(map(math.isfinite, told.values()))
    assert told["mse"] == pytest.approx(np.mean((gold - found) ** 2))
    if np.ptp(gold) > 1e-3 and np.ptp(found) > 1e-3:
        assert told["pearson"] == pytest.approx(np.corrcoef(gold, found)[0, 1], abs=1e-6)
        ranks = np.corrcoef(stats.rankdata(gold), stats.rankdata(found))[0, 1]
        assert told["spearman"] == pytest.approx(ranks, abs=1e-6)


def test_answers_that_are_all_alike_are_no_correlation():
    assert score(["pearson", "spearman"], [1, 2, 3], [2, 2, 2]) == {"pearson": 0.0, "spearman": 0.0}
    assert score(["matthews", "f1"], [0, 1, 1], [0, 0, 0]) == {"matthews": 0.0, "f1": 0.0}
    assert score(["pearson"], [1], [2]) == {"pearson": 0.0}


def test_macro_f1_is_the_mean_over_labels():
    gold, found = [0, 1, 2, 2], [0, 2, 2, 1]
    assert score(["macro_f1"], gold, found)["macro_f1"] == pytest.approx((1 + 0 + 0.5) / 3)
