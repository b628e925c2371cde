"""Which rows a task's splits are."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.paths import real_data
from weft.data.splits.split import Split
from weft.data.splits.splits import SplitRules, arrange, files_needed, load_rows, prepare, rules_of
from weft.data.splits.subset import cut, halves, rows_of, share_of
from weft.errors import WeftError
from weft.suites import load_suite


def rows(count, start=0):
    return [{"text": f"text {i}", "label": i % 2} for i in range(start, start + count)]


def task_of(train=100, validation=None, test=None, name="t", **more):
    files = {"train": rows(train)}
    if validation:
        files["validation"] = rows(validation, 1000)
    if test:
        files["test"] = [{"text": f"text {i}", "label": -1} for i in range(2000, 2000 + test)]
    return weft.Task(name, labels=("no", "yes"), files=files, **more)


def grouped(sizes, shuffle=0):
    """A split whose groups have these sizes, their rows mixed."""
    names = [name for name, size in enumerate(sizes) for _ in range(size)]
    names = [names[i] for i in np.random.default_rng(shuffle).permutation(len(names))]
    task = weft.Task("t", labels=("no", "yes"), files={"train": rows(1)})
    texts = [(f"text {i}",) for i in range(len(names))]
    row = np.arange(1, len(names) + 1)
    return Split(task, "train", "rows", texts, [i % 2 for i in range(len(names))], row, groups=names)


def at(split):
    return split.row.tolist()


def torn(*parts):
    """The groups that are in more than one part."""
    return [name for name, n in Counter(name for part in parts for name in set(part.groups)).items() if n > 1]


group_sizes = st.lists(st.integers(1, 9), min_size=2, max_size=40)
shares = st.floats(0.001, 0.999)


@given(st.integers(2, 300), st.integers(0, 99))
def test_halves_are_disjoint_and_together_the_whole(count, seed):
    split = grouped([1] * count)
    one, other = halves(split, seed)
    assert (one.split, other.split) == ("validation", "test")
    assert sorted(at(one) + at(other)) == at(split)
    assert 0 <= len(one) - len(other) <= 1
    for half in (one, other):
        assert at(half) == sorted(at(half))
        assert [split.texts[i - 1] for i in at(half)] == half.texts
        assert [split.labels[i - 1] for i in at(half)] == half.labels
        assert [split.groups[i - 1] for i in at(half)] == half.groups


@given(group_sizes, shares, st.integers(0, 99))
def test_no_group_is_torn_apart(sizes, share, seed):
    split = grouped(sizes, seed)
    one, other = halves(split, seed)
    assert not torn(one, other)
    assert sorted(at(one) + at(other)) == at(split)
    assert abs(len(one) - len(other)) <= max(sizes)
    left, taken = cut(split, share, seed)
    assert not torn(left, taken)
    assert sorted(at(left) + at(taken)) == at(split)
    assert len(left) > 0
    part = share_of(split, share, seed)
    rest = rows_of(split, [i for i in range(len(split)) if i + 1 not in set(at(part))])
    assert not torn(part, rest)
    assert 0 <= len(part) - share * len(split) < max(sizes)  # the fewest groups that hold so many


@given(group_sizes, st.lists(shares, min_size=2, max_size=5), st.integers(0, 99))
def test_smaller_fractions_lie_inside_larger_ones(sizes, some, seed):
    split = grouped(sizes, seed)
    found = [set(at(share_of(split, share, seed))) for share in sorted(some)]
    assert all(small <= large for small, large in pairwise(found))


def test_one_group_cannot_be_cut():
    message = r"1 group of rows that are judged together; expected two or more.*or use halves: false"
    with pytest.raises(WeftError, match=message):
        halves(grouped([7]), 1)
    with pytest.raises(WeftError, match="1 group of rows"):
        cut(grouped([7]), 0.1, 1)


@given(st.integers(2, 200), st.floats(0.01, 1), st.floats(0.01, 0.9), st.integers(0, 9))
def test_the_cut_is_the_same_whatever_the_fraction(count, fraction, share, seed):
    whole = prepare(task_of(count, cut=share, split_seed=seed))
    some = prepare(task_of(count, cut=share, split_seed=seed, fraction=fraction))
    assert at(some["validation"]) == at(whole["validation"])
    assert set(at(some["train"])) <= set(at(whole["train"]))
    assert sorted(at(whole["train"]) + at(whole["validation"])) == list(range(1, count + 1))


def test_without_rules_the_files_are_the_splits():
    found = prepare(task_of(20, 10, 5), ("train", "validation", "test"))
    assert [len(s) for s in found.splits.values()] == [20, 10, 5]
    assert found.notes == ()
    assert found.as_dict()["test"] == {"rows": 5, "given": 5, "file": "test", "how": "all 5 rows"}


def test_what_was_done_is_told():
    task = task_of(9606, cut=0.1, fraction=0.01, halves=True, split_seed=7)
    found = prepare(task, ("train", "validation", "test"))
    assert {name: part.how for name, part in found.parts.items()} == {
        "train": "1% of 8645 rows, seed 7",
        "validation": "half of 961 rows (10% of 9606 training rows, seed 7), seed 7",
        "test": "half of 961 rows (10% of 9606 training rows, seed 7), seed 7",
    }
    assert [(p.rows, p.given, p.file) for p in found.parts.values()] == [
        (87, 9606, "train"),
        (481, 9606, "train"),
        (480, 9606, "train"),
    ]
    assert found.notes == (
        "task 't' has no validation file: 961 of 9606 training rows are used for validation (cut 0.1, "
        "split_seed 7)",
        "task 't' trains on 87 of 8645 rows (fraction 0.01, split_seed 7)",
        "task 't': its 961 validation rows are halved (split_seed 7): 481 for model selection, 'validation', "
        "and 480 for reporting, 'test'",
    )
    assert json.loads(json.dumps(found.as_dict()))["train"]["rows"] == 87


def test_halves_replace_the_test_file():
    found = prepare(task_of(10, 9, 5, halves=True), ("validation", "test"))
    assert found.parts["validation"].how == "half of 9 rows, seed 1"
    assert sorted(at(found["validation"]) + at(found["test"])) == list(range(1, 10))
    assert found["test"].labels is not None
    assert found.notes[0].endswith("'test'; its test file is not used")


def test_a_cut_is_not_used_where_there_is_a_file():
    found = prepare(task_of(10, 4, cut=0.5))
    assert [len(s) for s in found.splits.values()] == [10, 4]
    assert found.notes == ("task 't' has a validation file: cut 0.5 is not used",)


def test_labels_that_a_fraction_leaves_without_rows_are_told():
    task = task_of(100, 4, fraction=0.01)
    told = prepare(task).notes[1]
    label = task.labels[1 - prepare(task)["train"].labels[0]]
    assert told == f"none of these rows of task 't' has the label {label!r}"


@pytest.mark.parametrize(
    ("more", "names", "files"),
    [
        ({}, ("train", "validation"), ("train",)),
        ({}, ("validation",), ("train",)),
        ({"halves": True}, ("test",), ("train",)),
        ({"validation": 5}, ("validation",), ("validation",)),
        ({"validation": 5, "test": 5, "halves": True}, ("test",), ("validation",)),
        ({"validation": 5, "test": 5}, ("test", "train"), ("train", "test")),
    ],
)
def test_only_what_is_needed_is_read_and_once(more, names, files):
    task = task_of(20, cut=0.2, **more)
    assert files_needed(task, names) == files
    read = []

    def load(one, split):
        read.append(split)
        return weft.data.load_split(one, split)

    assert list(prepare(task, names, load).splits) == list(names)
    assert tuple(read) == files


def test_one_split_at_a_time_gives_the_same_rows():
    task = task_of(50, cut=0.3, fraction=0.5, halves=True)
    together = prepare(task, ("train", "validation", "test"))
    for name in together.splits:
        assert at(load_rows(task, name)) == at(together[name])


def test_no_validation_file_and_no_cut_is_an_error():
    with pytest.raises(WeftError, match="no file for the split 'validation'"):
        prepare(task_of(10))


def test_a_hub_data_set_is_cut_only_where_the_task_says_so():
    wanted = ("train", "validation")
    assert files_needed(weft.Task("h", labels=("a", "b"), hub="x"), wanted, SplitRules(cut=0.1)) == wanted
    assert files_needed(weft.Task("h", labels=("a", "b"), hub="x", cut=0.1), wanted) == ("train",)


def test_what_could_not_be_read_is_left_out():
    task = task_of(10, cut=0.5, halves=True)
    assert arrange(task, {}).splits == {}
    further = halves(weft.data.load_split(task, "train"), 1)[0]  # a set beside the validation rows
    assert list(arrange(task, {"validation": further}).splits) == ["validation", "test"]


def test_rules_may_be_others_than_the_task_s():
    task = task_of(40, fraction=0.5)
    assert rules_of(task) == SplitRules(fraction=0.5)
    found = prepare(task, rules=SplitRules(cut=0.25, seed=3))
    assert [len(s) for s in found.splits.values()] == [30, 10]


def test_no_question_of_multirc_is_torn_apart():
    (task,) = load_suite("superglue", real_data(), only=["multirc"])
    found = prepare(replace(task, halves=True), ("validation", "test"))
    assert len(found["validation"]) + len(found["test"]) == 4848
    assert abs(len(found["validation"]) - len(found["test"])) < 20
    assert not torn(found["validation"], found["test"])


def test_scitail_has_no_validation_file():
    task = weft.Task(
        "scitail",
        texts=("premise", "hypothesis"),
        labels=("entails", "neutral"),
        files={"train": real_data("scitail", "train.parquet")},
        cut=0.1,
    )
    found = prepare(task)
    assert (len(found["train"]), len(found["validation"])) == (8645, 961)
    assert not set(at(found["train"])) & set(at(found["validation"]))
