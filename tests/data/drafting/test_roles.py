"""Text and label columns."""

from __future__ import annotations

import pytest

from weft.data.drafting.column import profile
from weft.data.drafting.roles import guess_label, guess_texts

N = 60
LONG = [f"a long text of number {n} that goes on and on" for n in range(N)]
OTHER = [f"and a different one, {n}, of about the same length" for n in range(N)]
SHORT = [f"the title {n}" for n in range(N)]
LABEL = ["good", "bad", "so so"] * (N // 3)
ID = [f"a{n:04}x" for n in range(N)]


def columns(**values):
    return [profile(name, cells) for name, cells in values.items()]


def test_the_long_text_is_the_text_and_a_title_is_another_candidate():
    found = guess_texts(columns(id=ID, title=SHORT, body=LONG, label=LABEL))
    assert (found.columns, found.others, found.doubt) == (("body",), ("title",), "")


@pytest.mark.parametrize(
    ("first", "second"),
    [("premise", "hypothesis"), ("sentence1", "sentence2"), ("text_a", "text_b"), ("a", "b")],
)
def test_pairs_by_name(first, second):
    found = guess_texts(columns(**{"id": ID, first: LONG, second: SHORT, "label": LABEL}))
    assert (found.columns, found.doubt) == ((first, second), "")


def test_two_long_texts_are_a_pair_with_a_doubt():
    found = guess_texts(columns(x=LONG, y=OTHER, label=LABEL))
    assert found.columns == ("x", "y")
    assert "pair" in found.doubt


def test_no_text():
    assert guess_texts(columns(id=ID, label=LABEL, number=list(range(N)))) is None
    dates = [f"2024-03-{n % 28 + 1:02} 10:00:00 UTC" for n in range(N)]
    assert guess_texts(columns(date=dates, label=LABEL)) is None


def test_labels_by_name():
    found = guess_label(
        columns(text=LONG, language=["en", "de"] * (N // 2), label=LABEL, n=list(range(N))), ["text"]
    )
    assert (found.columns, found.others, found.doubt) == (("label",), ("language",), "")


def test_a_label_without_a_name_is_the_only_candidate():
    found = guess_label(columns(id=ID, text=LONG, verwendung=LABEL), ["text"])
    assert (found.columns, found.doubt) == (("verwendung",), "")


def test_two_candidates_without_a_name_are_a_doubt():
    found = guess_label(columns(text=LONG, colour=LABEL, shape=["round", "flat"] * (N // 2)), ["text"])
    assert found.doubt
    assert {*found.columns, *found.others} == {"colour", "shape"}


def test_no_label():
    constant = ["x"] * N
    assert guess_label(columns(id=ID, text=LONG, index=list(range(N)), source=constant), ["text"]) is None


def test_split_columns_are_no_labels():
    assert guess_label(columns(text=LONG, split=["train", "dev"] * (N // 2)), ["text"]) is None
