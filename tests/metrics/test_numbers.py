"""Correlations and errors, beside numpy and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from weft.metrics import score

numbers = st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=3, max_size=60)


@given(numbers)
def test_correlations(pairs):
    gold, predictions = np.array(pairs).T
    metrics = score(["pearson", "spearman", "mse"], gold, predictions)
    assert all(map(math.isfinite, metrics.values()))
    assert metrics["mse"] == pytest.approx(np.mean((gold - predictions) ** 2))
    if np.ptp(gold) > 1e-3 and np.ptp(predictions) > 1e-3:
        assert metrics["pearson"] == pytest.approx(np.corrcoef(gold, predictions)[0, 1], abs=1e-6)
        ranks = np.corrcoef(stats.rankdata(gold), stats.rankdata(predictions))[0, 1]
        assert metrics["spearman"] == pytest.approx(ranks, abs=1e-6)


def test_several_outputs_are_taken_together():
    gold, predictions = [[1, 2], [3, 5]], [[2, 2], [4, 3]]
    assert score(["pearson"], gold, predictions)["pearson"] == pytest.approx(
        np.corrcoef([1, 2, 3, 5], [2, 2, 4, 3])[0, 1]
    )


def test_answers_that_are_all_alike_are_no_correlation():
    assert score(["pearson", "spearman"], [1, 2, 3], [2, 2, 2]) == {"pearson": 0.0, "spearman": 0.0}
    assert score(["pearson"], [1], [2]) == {"pearson": 0.0}
    assert score(["pearson", "spearman", "mse"], [], []) == {"pearson": 0.0, "spearman": 0.0, "mse": 0.0}


def test_numbers_that_differ_by_less_than_their_rounding():
    assert math.isfinite(score(["pearson"], [0.0, 5e-324, 0.0], [1.0, 2.0, 3.0])["pearson"])
