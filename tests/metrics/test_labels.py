"""Labels, and labels in groups, beside scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as oracle

from weft.metrics import score

two = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60)
five = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60)


@given(two)
def test_two_labels(pairs):
    gold, predictions = np.array(pairs).T
    metrics = score(["accuracy", "f1", "f1a", "matthews"], gold, predictions)
    assert metrics["accuracy"] == pytest.approx(oracle.accuracy_score(gold, predictions))
    assert (
        metrics["f1"]
        == metrics["f1a"]
        == pytest.approx(oracle.f1_score(gold, predictions, zero_division=0.0))
    )
    assert metrics["matthews"] == pytest.approx(oracle.matthews_corrcoef(gold, predictions))


@given(five)
def test_five_labels(pairs):
    gold, predictions = np.array(pairs).T
    metrics = score(["macro_f1", "micro_f1", "matthews", "exact"], gold.astype(float), predictions)
    macro = oracle.f1_score(gold, predictions, average="macro", zero_division=0.0)
    assert metrics["macro_f1"] == pytest.approx(macro)
    assert metrics["micro_f1"] == metrics["exact"] == pytest.approx(oracle.accuracy_score(gold, predictions))
    assert metrics["matthews"] == pytest.approx(oracle.matthews_corrcoef(gold, predictions))


@given(st.data(), st.integers(1, 20), st.integers(2, 5))
def test_many_labels_at_once(data, count, size):
    rows = st.lists(st.lists(st.integers(0, 1), min_size=size, max_size=size), min_size=count, max_size=count)
    gold, predictions = np.array(data.draw(rows)), np.array(data.draw(rows))
    metrics = score(["micro_f1", "macro_f1", "exact"], gold, predictions)
    for average in ("micro", "macro"):
        expected = oracle.f1_score(gold, predictions, average=average, zero_division=0.0)
        assert metrics[f"{average}_f1"] == pytest.approx(expected)
    assert metrics["exact"] == pytest.approx(oracle.accuracy_score(gold, predictions))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 4)), min_size=1, max_size=40))
def test_a_question_is_right_if_all_its_answers_are(rows):
    gold, predictions, groups = zip(*rows, strict=True)
    asked = {g: [a == b for a, b, c in rows if c == g] for g in groups}
    expected = np.mean([all(right) for right in asked.values()])
    assert score(["question_em"], gold, predictions, groups)["question_em"] == pytest.approx(expected)
    alone = score(["question_em", "accuracy"], gold, predictions)
    assert alone["question_em"] == pytest.approx(alone["accuracy"])


def test_groups_may_be_any_hashables():
    groups = [("p1", 0), ("p1", 0), ("p1", 1), ("p2", 0)]
    assert score(["question_em"], [1, 0, 1, 0], [1, 1, 1, 0], groups) == {"question_em": 2 / 3}


def test_nothing_at_all_and_answers_that_are_all_alike():
    names = ["accuracy", "f1", "macro_f1", "micro_f1", "matthews", "exact", "f1a", "question_em"]
    assert set(score(names, [], []).values()) == {0.0}
    assert score(["matthews", "f1"], [0, 1, 1], [0, 0, 0]) == {"matthews": 0.0, "f1": 0.0}


def test_macro_f1_is_the_mean_over_labels():
    gold, predictions = [0, 1, 2, 2], [0, 2, 2, 1]
    assert score(["macro_f1"], gold, predictions)["macro_f1"] == pytest.approx((1 + 0 + 0.5) / 3)


def test_different_numbers_of_labels_and_predictions_are_refused():
    with pytest.raises(ValueError, match="gold labels"):
        score(["f1"], [0, 1], [0, 1, 1])
