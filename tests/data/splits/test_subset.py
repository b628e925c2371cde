"""A part of a split by a seed."""

from __future__ import annotations

from itertools import pairwise

import pytest

import weft
from weft.data.splits.split import load_split
from weft.data.splits.subset import cut, rows_of, share_of, without_rows
from weft.errors import WeftError


def split_of(count, name="t", labels=("no", "yes")):
    rows = [{"text": f"text {i}", "label": i % 2} for i in range(count)]
    return load_split(weft.Task(name, labels=labels, files={"train": rows}), "train")


def texts(split):
    return {t[0] for t in split.texts}


def test_a_smaller_share_lies_inside_a_larger_one():
    split = split_of(1000)
    shares = [share_of(split, share, 3) for share in (0.001, 0.01, 0.07, 0.5, 1.0)]
    assert [len(s) for s in shares] == [1, 10, 70, 500, 1000]
    for small, large in pairwise(shares):
        assert texts(small) < texts(large)
    assert list(shares[3].row) == sorted(shares[3].row)  # in the order of the file
    assert [split.texts[row - 1] for row in shares[2].row] == shares[2].texts
    assert [split.labels[row - 1] for row in shares[2].row] == shares[2].labels


def test_another_seed_or_task_is_another_choice():
    some = texts(share_of(split_of(500), 0.1, 1))
    assert some == texts(share_of(split_of(500), 0.1, 1))
    assert some != texts(share_of(split_of(500), 0.1, 2))
    assert some != texts(share_of(split_of(500, "u"), 0.1, 1))


def test_a_cut_is_in_two_parts_that_no_share_changes():
    split = split_of(95)
    left, validation = cut(split, 0.1, 1)
    assert (len(left), len(validation), validation.split) == (85, 10, "validation")
    assert texts(left) | texts(validation) == texts(split)
    assert not texts(left) & texts(validation)
    assert texts(validation) != texts(share_of(split, 0.1, 1))


def test_one_row_is_left_to_train_on():
    left, validation = cut(split_of(2), 0.9, 1)
    assert (len(left), len(validation)) == (1, 1)
    with pytest.raises(WeftError, match=r"1 row; expected two or more.*add rows to task 't', or use a valid"):
        cut(split_of(1), 0.5, 1)


def test_labels_without_a_row():
    split = split_of(10, labels=("no", "yes", "maybe"))
    assert without_rows(split) == ["maybe"]
    assert without_rows(rows_of(split, [0, 2])) == ["yes", "maybe"]
    numbers = weft.Task("n", "regress", files={"train": [{"text": "a", "label": 0.5}]})
    assert without_rows(load_split(numbers, "train")) == []
