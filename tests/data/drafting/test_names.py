"""Names of columns."""

from __future__ import annotations

import pytest

from weft.data.drafting.names import is_id, is_text, label_points, numbered, plain


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("sentence1", ("sentence", "1")),
        ("text_a", ("text", "a")),
        ("Option B", ("option", "b")),
        ("ending0", ("ending", "0")),
        ("a", ("", "a")),
        ("idea", None),
        ("text", None),
    ],
)
def test_numbered(name, parts):
    assert numbered(name) == parts


@pytest.mark.parametrize(
    "name", ["id", "user_id", "ID", "commentId", "idx_question", "Unnamed: 0", "created_at"]
)
def test_ids(name):
    assert is_id(name)


@pytest.mark.parametrize("name", ["idea", "text", "valid", "Midi", "label"])
def test_other_names_are_no_ids(name):
    assert not is_id(name)


def test_names_of_labels_and_texts():
    assert (
        label_points("Label")
        > label_points("sentiment")
        > label_points("review_stars")
        > label_points("colour")
        == 0
    )
    assert label_points("is_duplicate") >= 6
    assert is_text("review_text")
    assert is_text("Comment")
    assert is_text("sentence2")
    assert not is_text("colour")
    assert plain("Gold-Label ") == "goldlabel"
