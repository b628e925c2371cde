"""Labels: names, order and balance."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from weft.data.drafting.labels import balance, count_labels, near_duplicates, no_gold, sort_labels
from weft.tasks.kinds.labelled import label_id


def test_order():
    assert sort_labels({"10", "9", "-1"}) == ["-1", "9", "10"]
    assert sort_labels({"I-B", "B-B", "O", "B-A"}) == ["O", "B-A", "B-B", "I-B"]
    assert sort_labels({"b", "a", "C"}) == ["C", "a", "b"]


@given(st.lists(st.one_of(st.booleans(), st.integers(-3, 9), st.sampled_from(["a", " b", "1"]))))
def test_every_counted_value_is_one_of_the_labels(values):
    """What `weft new` writes as labels is what training accepts."""
    labels = count_labels({"train": values}, True, "classify")
    for value in values:
        assert labels.names[label_id(value, labels.names)] in labels.names


def test_missing_labels_are_counted():
    labels = count_labels({"train": ["a", None, "", " ", "b"]}, True, "classify")
    assert (labels.names, labels.missing, labels.null) == (["a", "b"], {"train": 3}, {"train": 1})


def test_several_labels_per_row():
    assert count_labels({"train": [["a", "b"], [], ["a"]]}, True, "multilabel").counts["train"] == {
        "a": 2,
        "b": 1,
    }
    assert count_labels({"train": ["a; b", "", "a"]}, True, "multilabel", ";").counts["train"] == {
        "a": 2,
        "b": 1,
    }
    assert count_labels({"train": ["O B-X", "O"]}, True, "tag").counts["train"] == {"O": 2, "B-X": 1}


def test_minus_one_is_no_label_only_if_it_is_rare():
    rare = count_labels({"train": [0, 1, 2] * 50 + [-1] * 3}, True, "classify")
    assert no_gold(rare) == 3
    sentiment = count_labels({"train": [-1, 0, 1] * 50}, True, "classify")
    assert no_gold(sentiment) == 0


def test_balance():
    assert balance(Counter(neg=52, pos=48)) == "neg 52 %, pos 48 %"
    assert balance(Counter(a=900, b=95, c=4, d=1), most=2) == "a 90 %, b 10 %, 2 more, the rarest 0.1 %"


def test_near_duplicates():
    assert near_duplicates(["pos", "Pos", "neg", "pos "]) == [("pos", "Pos", "pos ")]
