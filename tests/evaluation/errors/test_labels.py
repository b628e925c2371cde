"""Errors of labels beside scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import classification_report, confusion_matrix

from tests.support.answered import labelled
from weft.evaluation.errors.analysis import WIDEST
from weft.evaluation.errors.labels import PAIRS, LabelErrors
from weft.tasks import Task

LABELS = ("a", "b", "c", "d")
PAIRS_OF_LABELS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)


def analysis(pairs, labels=LABELS):
    gold, predicted = np.array(pairs).T
    return LabelErrors(labelled(Task("x", labels=labels), gold, predicted))


@settings(deadline=None)
@given(PAIRS_OF_LABELS)
def test_the_matrix_sums_to_the_rows_and_columns(pairs):
    gold, predicted = np.array(pairs).T
    errors = analysis(pairs)
    (matrix,) = errors.matrices()
    assert matrix.counts.sum(1).tolist() == np.bincount(gold, minlength=4).tolist()
    assert matrix.counts.sum(0).tolist() == np.bincount(predicted, minlength=4).tolist()
    assert (matrix.counts == confusion_matrix(gold, predicted, labels=range(4))).all()
    wrong = sum(map(bool, errors.errors()))
    assert matrix.counts.sum() - np.trace(matrix.counts) == wrong == int((gold != predicted).sum())
    confused = errors.tables()[1]
    assert sum(row[2] for row in confused.rows) == wrong  # twelve pairs at most, so that all are there
    assert [row[2] for row in confused.rows] == sorted((row[2] for row in confused.rows), reverse=True)


@settings(deadline=None)
@given(PAIRS_OF_LABELS)
def test_precision_and_recall_beside_scikit_learn(pairs):
    gold, predicted = np.array(pairs).T
    expected = classification_report(
        gold, predicted, labels=range(4), target_names=LABELS, output_dict=True, zero_division=0
    )
    for label, count, found, right, precision, recall, f1 in analysis(pairs).tables()[0].rows:
        assert count == expected[label]["support"]
        assert (precision, recall) == pytest.approx((expected[label]["precision"], expected[label]["recall"]))
        assert f1 == pytest.approx(expected[label]["f1-score"])
        assert precision == pytest.approx(right / found if found else 0)


def test_many_labels_have_no_matrix_and_the_most_frequent_confusions():
    labels = tuple(f"label {i}" for i in range(WIDEST + 1))
    pairs = [(0, 1)] * 3 + [(i, i + 1) for i in range(WIDEST)]
    errors = analysis(pairs, labels)
    assert errors.matrices() == []
    table, confused = errors.tables()
    assert len(table.rows) == WIDEST + 1
    assert len(confused.rows) == PAIRS
    assert confused.rows[0] == ("label 0", "label 1", 4, 1.0)
