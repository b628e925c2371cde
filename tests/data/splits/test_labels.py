"""A task that names no labels has those of its training split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.splits.labels import labels_in_train
from weft.errors import WeftError


def found(values, kind="classify", **settings):
    return labels_in_train(kind, "label", [{"label": value} for value in values], **settings)


@given(st.lists(st.sampled_from(["pos", "neg", "mixed", "b b", "ä"]), min_size=1))
def test_names_are_sorted(values):
    assert found(values) == tuple(sorted(set(values)))


@given(st.lists(st.integers(-20, 200), min_size=1, max_size=60), st.sampled_from([int, float, str]))
def test_numbers_are_sorted_by_their_value(values, kind):
    assert found(map(kind, values)) == tuple(map(str, sorted(set(values))))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["10", "9", "1.5"], ("1.5", "9", "10")),
        ([True, False], ("False", "True")),
        (["pos", "pos", "pos ", "Pos", "neg"], ("neg", "pos")),
        (["pos ", "neg", None, "", float("nan")], ("neg", "pos ")),
        ([1, "x", 2], ("1", "2", "x")),
    ],
)
def test_odd_labels(values, expected):
    assert found(values) == expected


def test_dropped_labels_are_left_out():
    assert found([0, 1, -1, None], drop=("-1", None)) == ("0", "1")


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("tag", [["O", "B-x"], ["I-x", "O"]], ("B-x", "I-x", "O")),
        ("multilabel", ["b, a", "c", ""], ("a", "b", "c")),
        ("multilabel", [["b", "a"], []], ("a", "b")),
        ("regress", [1, 2], ()),
        ("span", [{}], ()),
    ],
)
def test_kinds(kind, values, expected):
    assert found(values, kind) == expected


def test_without_training_rows_nothing_is_found():
    assert labels_in_train("classify", "label", None) == ()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            [f"a text {number}" for number in range(300)],
            "found 300 distinct values in 300 rows, such as 'a text 0'",
        ),
        ([str(number / 7) for number in range(300)], "kind: regress"),
        ([0.5, 1.5], "kind 'regress'"),
        ([["a", "b"]], "kind 'multilabel'"),
    ],
)
def test_columns_that_hold_no_labels(values, words):
    with pytest.raises(WeftError, match=words):
        found(values)


def test_a_file_is_read_in_its_dialect(tmp_path):
    (tmp_path / "a.csv").write_bytes("text;label\na;süß\nb;herb\n".encode("cp1252"))
    assert labels_in_train("classify", "label", tmp_path / "a.csv") == ("herb", "süß")
    with pytest.raises(
        WeftError, match=r"none are named, and .*a\.csv.*column 'sort': there is no such column"
    ):
        labels_in_train("classify", "sort", tmp_path / "a.csv")
