"""Errors of texts: one kind per wrong answer, in agreement with SQuAD's metrics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.answered import labelled
from weft.evaluation.errors.texts import (
    EXACT,
    NO_ANSWER,
    NO_COMMON,
    NO_GOLD,
    PARTIAL,
    TOO_LONG,
    TOO_SHORT,
    TextErrors,
    agreement,
)
from weft.metrics import METRICS
from weft.tasks import Task

TASK = Task("s", "span", texts=("q", "c"), label="answers")
TEXTS = st.lists(st.sampled_from(["red", "old", "The", "cat", "cat.", ""]), max_size=4).map(" ".join)


@given(st.lists(st.tuples(st.lists(TEXTS, min_size=1, max_size=3), TEXTS), min_size=1, max_size=8))
def test_kinds_partition_the_wrong_answers(pairs):
    gold, predicted = [rights for rights, _ in pairs], [answer for _, answer in pairs]
    errors = TextErrors(labelled(TASK, gold, predicted))
    kinds = errors.errors()
    right = round(len(pairs) * METRICS["exact_match"](gold, predicted, None))
    assert [len(of_example) for of_example in kinds].count(0) == right
    assert all(len(of_example) <= 1 and set(of_example) <= set(errors.kinds) for of_example in kinds)
    rows = errors.tables()[0].rows
    assert sum(row[1] for row in rows) == len(pairs)
    assert sum(row[2] for row in rows) == pytest.approx(1)
    total = sum(row[1] * row[3] for row in rows if row[1])
    assert total / len(pairs) == pytest.approx(METRICS["token_f1"](gold, predicted, None))


@pytest.mark.parametrize(
    ("rights", "answer", "expected"),
    [
        (["red cat"], "the Red cat!", EXACT),
        (["red cat"], "", NO_ANSWER),
        (["red cat"], "the", NO_ANSWER),  # nothing is left of it by SQuAD's rules
        ([], "red", NO_GOLD),
        ([""], "red", NO_GOLD),
        ([], "", EXACT),
        (["red cat"], "old dog", NO_COMMON),
        (["red cat"], "old red cat", TOO_LONG),
        (["old red cat"], "red", TOO_SHORT),
        (["old red cat"], "red dog", PARTIAL),
        (["red cat"], "cat red", PARTIAL),  # the same words in a different order
        (["dog", "old red cat"], "red cat", TOO_SHORT),  # the nearest gold text counts
    ],
)
def test_by_hand(rights, answer, expected):
    assert agreement(rights, answer).kind == expected


def test_lengths():
    errors = TextErrors(labelled(TASK, [["red cat", "dog"], ["old"]], ["a red", "old bird here"]))
    assert errors.tables()[1].rows == [("nearest gold text", 1.5), ("answer", 2.0)]
