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
    gold, found = np.array(pairs).T
    told = score(["accuracy", "f1", "f1a", "matthews"], gold, found)
    assert told["accuracy"] == pytest.approx(oracle.accuracy_score(gold, found))
    assert told["f1"] == told["f1a"] == pytest.approx(oracle.f1_score(gold, found, zero_division=0.0))
    assert told["matthews"] == pytest.approx(oracle.matthews_corrcoef(gold, found))


@given(five)
def test_five_labels(pairs):
    gold, found = np.array(pairs).T
    told = score(["macro_f1", "micro_f1", "matthews", "exact"], gold.astype(float), found)
    macro = oracle.f1_score(gold, found, average="macro", zero_division=0.0)
    assert told["macro_f1"] == pytest.approx(macro)
    assert told["micro_f1"] == told["exact"] == pytest.approx(oracle.accuracy_score(gold, found))
    assert told["matthews"] == pytest.approx(oracle.matthews_corrcoef(gold, found))


@given(st.data(), st.integers(1, 20), st.integers(2, 5))
def test_many_labels_at_once(data, count, size):
    rows = st.lists(st.lists(st.integers(0, 1), min_size=size, max_size=size), min_size=count, max_size=count)
    gold, found = np.array(data.draw(rows)), np.array(data.draw(rows))
    told = score(["micro_f1", "macro_f1", "exact"], gold, found)
    for average in ("micro", "macro"):
        expected = oracle.f1_score(gold, found, average=average, zero_division=0.0)
        assert told[f"{average}_f1"] == pytest.approx(expected)
    assert told["exact"] == pytest.approx(oracle.accuracy_score(gold, found))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 4)), min_size=1, max_size=40))
def test_a_question_is_right_if_all_its_answers_are(rows):
    gold, found, groups = zip(*rows, strict=True)
    asked = {g: [a == b for a, b, c in rows if c == g] for g in groups}
    expected = np.mean([all(right) for right in asked.values()])
    assert score(["question_em"], gold, found, groups)["question_em"] == pytest.approx(expected)
    alone = score(["question_em", "accuracy"], gold, found)
    assert alone["question_em"] == pytest.approx(alone["accuracy"])


def test_groups_may_be_any_hashables():
    groups = [("p1", 0), ("p1", 0), ("p1", 1), ("p2", 0)]
    assert score(["question_em"], [1, 0, 1, 0], [1, 1, 1, 0], groups) == {"question_em": 2 / 3}


def test_nothing_at_all_and_answers_that_are_all_alike():
    names = ["accuracy", "f1", "macro_f1", "micro_f1", "matthews", "exact", "f1a", "question_em"]
    assert set(score(names, [], []).values()) == {0.0}
    assert score(["matthews", "f1"], [0, 1, 1], [0, 0, 0]) == {"matthews": 0.0, "f1": 0.0}


def test_macro_f1_is_the_mean_over_labels():
    gold, found = [0, 1, 2, 2], [0, 2, 2, 1]
    assert score(["macro_f1"], gold, found)["macro_f1"] == pytest.approx((1 + 0 + 0.5) / 3)


def test_other_numbers_of_answers_are_no_metric():
    with pytest.raises(ValueError, match="right labels"):
        score(["f1"], [0, 1], [0, 1, 1])
