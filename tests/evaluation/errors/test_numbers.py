"""Residuals beside scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.metrics import max_error, mean_absolute_error, r2_score, root_mean_squared_error

from tests.support.answered import labelled
from weft.evaluation.errors.numbers import BARS, PARTS, NumberErrors
from weft.tasks import Task

ONE, TWO = Task("x", "regress"), Task("x", "regress", label=("u", "v"))
VALUES = st.one_of(st.floats(-9, 9, width=16), st.integers(0, 3).map(float))


@settings(deadline=None)
@given(arrays.arrays(np.float64, (2, 30), elements=VALUES))
def test_beside_scikit_learn(sides):
    gold, predicted = sides
    errors = NumberErrors(labelled(ONE, gold, predicted))
    every, by_value, histogram = errors.tables()
    ((name, count, bias, absolute, root, largest, explained),) = every.rows
    assert (name, count) == ("label", 30)
    assert bias == pytest.approx((predicted - gold).mean(), abs=1e-12)
    assert absolute == pytest.approx(mean_absolute_error(gold, predicted))
    assert root == pytest.approx(root_mean_squared_error(gold, predicted))
    assert largest == pytest.approx(max_error(gold, predicted)) == errors.severity().max()
    if explained is None:
        assert len(set(gold)) == 1
    else:
        assert explained == pytest.approx(r2_score(gold, predicted))
    # parts hold every row once, in order, and equal values together
    assert sum(row[5] for row in by_value.rows) == 30
    assert len(by_value.rows) <= PARTS
    assert all(a[2] < b[1] for a, b in zip(by_value.rows, by_value.rows[1:], strict=False))
    assert sum(row[5] * row[6] for row in by_value.rows) == pytest.approx(30 * bias, abs=1e-9)
    assert len(histogram.rows) == BARS
    assert sum(row[3] for row in histogram.rows) == 30


def test_several_outputs_have_the_names_of_their_columns():
    errors = NumberErrors(labelled(TWO, [[0, 1], [2, 3]], np.array([[0, 2], [5, 3]])))
    assert [row[0] for row in errors.tables()[0].rows] == ["u", "v"]
    assert errors.severity().tolist() == [1, 3]
    assert (errors.gold(1), errors.predicted(1)) == ([2, 3], [5, 3])
    assert errors.errors() == [[], []]
    assert not errors.counts_errors
