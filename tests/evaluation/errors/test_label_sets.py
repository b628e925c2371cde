"""Errors of sets of labels beside scikit-learn; missed and spurious labels are all errors there are."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.metrics import multilabel_confusion_matrix, precision_recall_fscore_support

from tests.support.answered import labelled
from weft.evaluation.errors.label_sets import MISSED, SPURIOUS, LabelSetErrors
from weft.tasks import Task

FLAGS = arrays.arrays(np.int64, (9, 3), elements=st.integers(0, 1))
TASK = Task("x", "multilabel", labels=("cat", "dog", "bird"))


@settings(deadline=None)
@given(FLAGS, FLAGS)
def test_beside_scikit_learn(gold, predicted):
    errors = LabelSetErrors(labelled(TASK, gold, predicted))
    (table,) = errors.tables()
    expected = precision_recall_fscore_support(gold, predicted, average=None, zero_division=0)
    for column, values in zip((4, 5, 6), expected[:3], strict=True):
        assert [row[column] for row in table.rows] == pytest.approx(values.tolist())
    cells = multilabel_confusion_matrix(gold, predicted)
    counts = Counter(kind for of_example in errors.errors() for kind in of_example)
    assert counts[MISSED] == cells[:, 1, 0].sum()
    assert counts[SPURIOUS] == cells[:, 0, 1].sum()
    assert [bool(kinds) for kinds in errors.errors()] == (gold != predicted).any(1).tolist()
    assert sum(map(len, errors.errors())) == (gold != predicted).sum()


def test_names():
    errors = LabelSetErrors(labelled(TASK, [[1, 0, 1], [0, 0, 0]], [[0, 1, 1], [0, 0, 0]]))
    assert (errors.gold(0), errors.predicted(0)) == (["cat", "bird"], ["dog", "bird"])
    assert (errors.gold(1), errors.predicted(1)) == ([], [])
    assert errors.errors() == [[MISSED, SPURIOUS], []]
