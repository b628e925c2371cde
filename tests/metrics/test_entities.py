"""Entities beside seqeval; surface forms by hand."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval import metrics as oracle

from tests.support.paths import real_data
from weft.metrics import score

NAMES = ["entity_f1", "entity_precision", "entity_recall", "surface_f1", "token_accuracy"]
TAGS = ["O", "B-person", "I-person", "B-creative-work", "I-creative-work"]


@st.composite
def sentences(draw):
    """Words of few kinds with two ways of tagging them, illegal tags among them."""
    rows = st.lists(
        st.tuples(st.sampled_from("xyz"), st.sampled_from(TAGS), st.sampled_from(TAGS)),
        min_size=1,
        max_size=12,
    )
    made = [list(zip(*row, strict=True)) for row in draw(st.lists(rows, min_size=1, max_size=6))]
    return [(words, tags) for words, tags, _ in made], [list(tags) for _, _, tags in made]


@given(sentences())
def test_random_tags(both):
    gold, predictions = both
    metrics = score(NAMES, gold, predictions)
    theirs = [list(tags) for _, tags in gold]
    for name in ("f1", "precision", "recall"):
        expected = getattr(oracle, f"{name}_score")(theirs, predictions, zero_division=0)
        assert metrics[f"entity_{name}"] == pytest.approx(float(expected)), name
    assert metrics["token_accuracy"] == pytest.approx(oracle.accuracy_score(theirs, predictions))
    assert 0 <= metrics["surface_f1"] <= 1
    itself = score(["entity_f1", "surface_f1"], gold, theirs)
    assert itself["entity_f1"] == itself["surface_f1"] in (0.0, 1.0)


def sentence(text, tags):
    return text.split(), tags.split()


SURFACES = {  # gold sentences, tags found, F1
    "each form counts once": (
        [sentence("Ann met Ann", "B-p O B-p"), sentence("Ann and Bo", "B-p O B-p")],
        ["B-p O O", "O O O"],
        2 * 1 / (2 + 1),
    ),
    "found elsewhere is found": (  # the first Ann is missed, but the form is found
        [sentence("Ann left", "B-p O"), sentence("Ann came", "B-p O")],
        ["O O", "B-p O"],
        1.0,
    ),
    "a form of another type is another": (
        [sentence("Paris shone", "B-p O"), sentence("in Paris", "O B-place")],
        ["B-place O", "O B-place"],
        2 * 1 / (2 + 1),
    ),
    "words are joined by spaces": (
        [sentence("New York calls", "B-place I-place O")],
        ["B-place B-place O"],
        0.0,
    ),
    "letters count as written": (
        [sentence("ann met Ann", "B-p O B-p")],
        ["B-p O O"],
        2 * 1 / (2 + 1),
    ),
    "a wrong form more": ([sentence("Ann met Bo", "B-p O O")], ["B-p O B-p"], 2 * 1 / (1 + 2)),
    "none at all": ([sentence("so it goes", "O O O")], ["O O O"], 0.0),
}


@pytest.mark.parametrize("case", SURFACES)
def test_surface_forms(case):
    gold, predictions, expected = SURFACES[case]
    assert score(["surface_f1"], gold, [tags.split() for tags in predictions]) == {
        "surface_f1": pytest.approx(expected)
    }


def test_an_illegal_tag_begins_an_entity():
    gold = [sentence("we saw Ann Lee there", "O O B-p I-p O")]
    assert score(["entity_f1"], gold, [["O", "O", "I-p", "I-p", "O"]]) == {"entity_f1": 1.0}
    assert score(["entity_precision"], gold, [["O", "O", "B-q", "I-p", "O"]]) == {"entity_precision": 0.0}


def test_nothing_to_find():
    assert set(score(NAMES, [], []).values()) == {0.0}
    none = score(NAMES, [sentence("so it goes", "O O O")], [["O", "O", "O"]])
    assert none == {name: float(name == "token_accuracy") for name in NAMES}
    with pytest.raises(ValueError, match="zip"):
        score(["token_accuracy"], [sentence("so it goes", "O O O")], [["O"]])


def test_real_tags_answered_with_mistakes():
    """WNUT17's validation sentences; one tag in eight is another."""
    import pyarrow.parquet as pq

    types = ("corporation", "creative-work", "group", "location", "person", "product")
    names = ["O", *(f"{prefix}-{name}" for name in types for prefix in "BI")]
    table = pq.read_table(real_data("wnut17", "validation.parquet"))
    words, tags = table["tokens"].to_pylist(), table["ner_tags"].to_pylist()
    gold = [(own, [names[i] for i in ids]) for own, ids in zip(words, tags, strict=True)]
    draw = random.Random(1)
    predictions = [[draw.choice(names) if draw.random() < 1 / 8 else tag for tag in own] for _, own in gold]
    metrics = score(NAMES, gold, predictions)
    theirs = [own for _, own in gold]
    for name in ("f1", "precision", "recall"):
        assert metrics[f"entity_{name}"] == pytest.approx(
            getattr(oracle, f"{name}_score")(theirs, predictions)
        )
    assert metrics["token_accuracy"] == pytest.approx(oracle.accuracy_score(theirs, predictions))
    assert 0 < metrics["surface_f1"] < 1
