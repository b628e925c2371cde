"""Kinds by the values of a label column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.drafting.column import profile
from weft.data.drafting.kinds import guess_kind, separator_of


def guess(values, name="label", paired=False):
    return guess_kind(profile(name, values), values, paired)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["neg", "pos"] * 20, "classify"),
        ([True, False] * 20, "classify"),
        ([0, 1] * 20, "classify"),
        ([0.0, 1.0, 2.0] * 20, "classify"),
        ([0.5, 1.25, 3] * 20, "regress"),
        (["0.5", "1", "3"] * 20, "regress"),
        (list(range(100)), "regress"),
        ([["a"], ["a", "b"], []] * 20, "multilabel"),
        (["a", "a,b", "b"] * 20, "multilabel"),
        (["a", "a|b", "b|c|a"] * 20, "multilabel"),
    ],
)
def test_kind_by_content(values, kind):
    found = guess(values)
    assert found.kind == kind
    assert not found.doubt


def test_ratings_may_be_a_scale():
    found = guess([1, 2, 3, 4, 5] * 10, "stars")
    assert (found.kind, found.others) == ("classify", ("regress",))
    assert found.doubt
    assert guess([1, 2, 3, 4, 5] * 10, "label", paired=True).others == ("regress", "similarity")
    assert not guess([0, 1, 2] * 10).others


def test_many_class_ids_are_classes_with_a_doubt():
    found = guess([n % 77 for n in range(2000)])
    assert found.kind == "classify"
    assert "regress" in found.others
    assert found.doubt


def test_a_few_values_that_are_no_numbers_are_dropped():
    found = guess([x / 7 for x in range(95)] + ["N/A"] * 5)
    assert (found.kind, found.drop) == ("regress", ("N/A",))
    assert "N/A" in found.doubt


@pytest.mark.parametrize(
    "values", [["bed, bath", "kitchen"] * 9, ["a", "b"] * 9, ["", None], ["x;y", "z;w"] * 9]
)
def test_a_separator_in_a_name_separates_nothing(values):
    assert separator_of(values) == ("", 0.0)


LABELS = st.sampled_from(["love", "war", "sea", "sun"])


@given(
    st.sampled_from(["|", ";", ","]),
    st.lists(st.lists(LABELS, min_size=1, max_size=3, unique=True), min_size=5, max_size=20),
)
def test_joined_lists_are_found(separator, lists):
    """Every combination is there, so the parts recur."""
    lists = [*lists, ["love"], ["war"], ["love", "war"], ["sea", "war"], ["sea"], ["sun"], ["sun", "sea"]]
    assert separator_of([separator.join(items) for items in lists])[0] == separator
