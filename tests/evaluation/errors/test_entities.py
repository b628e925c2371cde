"""Entity errors: they partition what is wrong; precision and recall beside seqeval; kinds by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import classification_report

from tests.support.answered import labelled
from weft.evaluation.errors.entities import (
    MISSED,
    NONE,
    SPURIOUS,
    WRONG_BOTH,
    WRONG_BOUNDARY,
    WRONG_TYPE,
    EntityErrors,
    entity_errors,
)
from weft.metrics.bio import entities
from weft.tasks import Task

TAGS = ("O", "B-x", "I-x", "B-y", "I-y")
TASK = Task("t", "tag", labels=TAGS, texts=("words",))
SENTENCES = st.lists(
    st.integers(1, 9).flatmap(
        lambda n: st.tuples(*[st.lists(st.sampled_from(TAGS), min_size=n, max_size=n)] * 2)
    ),
    min_size=1,
    max_size=6,
)


def analysis(sentences):
    gold = [(tuple(f"w{i}" for i in range(len(tags))), list(tags)) for tags, _ in sentences]
    return EntityErrors(labelled(TASK, gold, [list(tags) for _, tags in sentences]))


@settings(deadline=None)
@given(SENTENCES)
def test_kinds_partition_the_errors(sentences):
    for tags, predicted in sentences:
        gold, found = entities(tags), entities(predicted)
        right = set(gold) & set(found)
        errors = entity_errors(gold, found)
        # every wrong entity of either side is in exactly one error
        assert Counter(e.gold for e in errors if e.gold) == Counter(set(gold) - right)
        assert Counter(e.predicted for e in errors if e.predicted) == Counter(set(found) - right)
        kinds = Counter(error.kind for error in errors)
        paired = kinds[WRONG_TYPE] + kinds[WRONG_BOUNDARY] + kinds[WRONG_BOTH]
        assert len(gold) - len(right) == kinds[MISSED] + paired
        assert len(found) - len(right) == kinds[SPURIOUS] + paired
        # what is missed or spurious has no partner left
        missed = [e.gold for e in errors if e.kind == MISSED]
        spurious = [e.predicted for e in errors if e.kind == SPURIOUS]
        assert not any(a.first < b.end and b.first < a.end for a in missed for b in spurious)


@settings(deadline=None)
@given(SENTENCES)
def test_the_matrix_sums_to_the_entities(sentences):
    errors = analysis(sentences)
    (matrix,) = errors.matrices()
    types = list(matrix.gold)
    gold = Counter(e.type for tags, _ in sentences for e in entities(tags))
    found = Counter(e.type for _, tags in sentences for e in entities(tags))
    for number, name in enumerate(types[:-1]):
        assert matrix.counts[number].sum() == gold[name]
        assert matrix.counts[:, number].sum() == found[name]
    assert types[-1] == NONE
    assert matrix.counts[-1, -1] == 0
    kinds = Counter(kind for of_sentence in errors.errors() for kind in of_sentence)
    assert matrix.counts[:-1, -1].sum() == kinds[MISSED]
    assert matrix.counts[-1, :-1].sum() == kinds[SPURIOUS]
    different = matrix.counts[:-1, :-1].copy()
    np.fill_diagonal(different, 0)
    assert different.sum() == kinds[WRONG_TYPE] + kinds[WRONG_BOTH]


@pytest.mark.filterwarnings("ignore")
@settings(deadline=None)
@given(SENTENCES)
def test_precision_and_recall_beside_seqeval(sentences):
    gold, predicted = [tags for tags, _ in sentences], [tags for _, tags in sentences]
    if not any(entities(tags) for tags in (*gold, *predicted)):
        return  # seqeval has no report then
    expected = classification_report(gold, predicted, output_dict=True, zero_division=0)
    for name, count, _, _, precision, recall, f1 in analysis(sentences).tables()[0].rows:
        facts = expected.get(name, {"support": 0, "precision": 0, "recall": 0, "f1-score": 0})
        assert count == facts["support"]
        assert (precision, recall, f1) == pytest.approx(
            (facts["precision"], facts["recall"], facts["f1-score"])
        )


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ("B-x I-x O", "O O O", [MISSED]),
        ("O O O", "O B-x O", [SPURIOUS]),
        ("B-x I-x O", "B-y I-y O", [WRONG_TYPE]),
        ("B-x I-x O", "B-x O O", [WRONG_BOUNDARY]),
        ("B-x I-x O", "B-y O O", [WRONG_BOTH]),
        ("B-x I-x I-x", "B-x B-x I-x", [WRONG_BOUNDARY, SPURIOUS]),  # the longer overlap is its partner
        ("B-x B-y O", "B-y I-y O", [MISSED, WRONG_BOUNDARY]),  # the same type comes before a different one
        ("B-x O B-y", "B-x O B-y", []),
    ],
)
def test_by_hand(gold, predicted, expected):
    errors = entity_errors(entities(gold.split()), entities(predicted.split()))
    assert sorted(error.kind for error in errors) == sorted(expected)


def test_details_name_words_and_places():
    words = ("Ann", "Lee", "sings")
    answered = labelled(TASK, [(words, ["B-x", "I-x", "O"])], [["B-x", "O", "B-y"]])
    assert EntityErrors(answered).details(0) == [
        {
            "kind": WRONG_BOUNDARY,
            "gold": {"type": "x", "text": "Ann Lee", "first": 0, "last": 1},
            "predicted": {"type": "x", "text": "Ann", "first": 0, "last": 0},
        },
        {"kind": SPURIOUS, "gold": None, "predicted": {"type": "y", "text": "sings", "first": 2, "last": 2}},
    ]
