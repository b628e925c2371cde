"""Errors of tags beside scikit-learn, over the words of all sentences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from tests.support.answered import labelled
from weft.evaluation.errors.tags import TagErrors
from weft.metrics import METRICS
from weft.tasks import Task

TAGS = ("noun", "verb", "other")
TASK = Task("t", "tag", labels=TAGS, texts=("words",))
SENTENCES = st.lists(
    st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1, max_size=6), min_size=1
)


@settings(deadline=None)
@given(SENTENCES)
def test_beside_scikit_learn(sentences):
    gold = [(("w",) * len(pairs), [tag for tag, _ in pairs]) for pairs in sentences]
    predicted = [[tag for _, tag in pairs] for pairs in sentences]
    errors = TagErrors(labelled(TASK, gold, predicted))
    truth, found = zip(*(pair for pairs in sentences for pair in pairs), strict=True)
    expected = precision_recall_fscore_support(truth, found, labels=TAGS, average=None, zero_division=0)
    table, confused = errors.tables()
    for column, values in zip((4, 5, 6), expected[:3], strict=True):
        assert [row[column] for row in table.rows] == pytest.approx(values.tolist())
    (matrix,) = errors.matrices()
    assert (matrix.counts == confusion_matrix(truth, found, labels=TAGS)).all()
    words = len(truth)
    wrong = sum(map(len, errors.errors()))
    assert sum(row[2] for row in confused.rows) == wrong
    assert 1 - wrong / words == pytest.approx(METRICS["token_accuracy"](gold, predicted, None))
    assert np.trace(matrix.counts) == words - wrong
    assert (errors.gold(0), errors.predicted(0)) == (gold[0][1], predicted[0])
