"""BIO tags, their repair and their entities, beside seqeval."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2, Entities

from weft.metrics.bio import entities, illegal, repaired, split_tag

tags = st.lists(st.sampled_from(["O", "B-a", "I-a", "B-b-c", "I-b-c"]), max_size=14)


@given(tags)
def test_entities_are_seqevals(given_tags):
    theirs = [(name, first, last + 1) for name, first, last in get_entities(given_tags)]
    assert entities(given_tags) == theirs


@given(tags)
def test_repaired_tags_are_legal_and_name_the_same(given_tags):
    made = repaired(given_tags)
    assert illegal(made) == 0
    assert repaired(made) == made
    assert entities(made) == entities(given_tags)
    assert [old[2:] for old in given_tags] == [new[2:] for new in made]
    assert illegal(given_tags) == sum(old != new for old, new in zip(given_tags, made, strict=True))
    if made:  # legal tags name the same to a reader that takes legal ones alone
        strict = Entities([made], IOB2).entities[0]
        assert [(e.tag, e.start, e.end) for e in strict] == entities(made)


def test_the_rule():
    given_tags = ["I-a", "I-a", "O", "I-b", "B-a", "I-b", "I-b", "B-b", "I-b"]
    assert repaired(given_tags) == ["B-a", "I-a", "O", "B-b", "B-a", "B-b", "I-b", "B-b", "I-b"]
    assert illegal(given_tags) == 3
    assert entities(given_tags) == [("a", 0, 2), ("b", 3, 4), ("a", 4, 5), ("b", 5, 7), ("b", 7, 9)]
    assert entities([]) == []


def test_a_type_may_have_hyphens():
    assert split_tag("I-creative-work") == ("I", "creative-work")
    assert split_tag("O") == ("O", "")


@pytest.mark.parametrize("tag", ["", "B", "B-", "E-a", "b-a", "o", "person"])
def test_other_tags_are_refused(tag):
    with pytest.raises(ValueError, match="O, B-TYPE or I-TYPE"):
        split_tag(tag)
