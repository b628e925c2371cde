"""Findings about labels: shift between splits, order in the file, one label that dominates."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from tests.support.paths import real_data
from weft.data import check
from weft.data.checks.labels import label_findings
from weft.data.splits.splits import load_rows
from weft.suites import load_suite
from weft.tasks import Task

SAME = "the labels follow the order of the rows"


def rows(labels, text="text"):
    return [{"text": f"{text} {i}", "label": label} for i, label in enumerate(labels)]


def findings(train, validation, **task_settings):
    task = Task(
        "x",
        **{"labels": ("no", "yes")} | task_settings,
        files={"train": rows(train, "a"), "validation": rows(validation, "b")},
    )
    return [str(finding).partition(": ")[2] for finding in check([task]).findings]


def shuffled(labels, seed=1):
    return random.Random(seed).sample(labels, len(labels))


def drawn(shares, count, seed):
    return random.Random(seed).choices(range(len(shares)), shares, k=count)


def test_label_shift_names_the_label_and_both_shares():
    found = findings(shuffled([0, 1] * 200), shuffled([0] * 97 + [1] * 3))
    assert len(found) == 2
    assert "label 'no': 50% of train, 97% of validation: a model learns the shares of train" in found[0]
    assert "cut: 0.1" in found[0]
    # and validation is nearly constant
    assert "97.0% of the rows have the label 'no'" in found[1]


@settings(max_examples=examples(60), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    shares=st.lists(st.floats(0.05, 1), min_size=2, max_size=30),
    sizes=st.tuples(st.integers(2, 400), st.integers(2, 400)),
)
def test_splits_of_one_distribution_have_no_shift_and_no_order(seed, shares, sizes):
    """The tests have a chance of one in a thousand: beyond it, differences must be large too."""
    train, validation = (drawn(shares, size, seed + i) for i, size in enumerate(sizes))
    found = findings(train, validation, labels=tuple(f"l{i}" for i in range(len(shares))))
    assert not [line for line in found if "of train" in line or SAME in line]


@settings(max_examples=examples(20), deadline=None)
@given(count=st.integers(40, 300), classes=st.integers(2, 5))
def test_sorted_labels_are_found_and_shuffled_ones_are_not(count, classes):
    labels = [i % classes for i in range(count)]
    names = tuple("abcde"[:classes])
    assert any(SAME in line for line in findings(sorted(labels), labels, labels=names))
    assert not any(SAME in line for line in findings(shuffled(labels, count), labels, labels=names))


def test_sorted_labels_say_what_to_do():
    (line,) = findings([0] * 100 + [1] * 100, shuffled([0, 1] * 20))
    assert "2 stretches of equal labels, where a random order has about 101" in line
    assert "shuffle it before you divide it by hand" in line


def test_numbers_have_an_order_and_a_shift_too():
    numbers = [i / 100 for i in range(300)]
    found = findings(numbers, shuffled([x + 1 for x in numbers]), kind="regress", labels=())
    assert "2 stretches of numbers below or above the median" in found[0]
    assert "the mean label is 1.5 in train, 2.5 in validation" in found[1]
    assert findings(shuffled(numbers), shuffled(numbers, 2), kind="regress", labels=()) == []


def test_a_label_of_several_that_shifts():
    train = shuffled([["a"]] * 100 + [["a", "b"]] * 100 + [[]] * 50)
    found = findings(train, shuffled([["a"]] * 90 + [["b", "a"]] * 10), kind="multilabel", labels=("a", "b"))
    assert any("label 'b': 40% of train, 10% of validation" in line for line in found)
    assert findings(train, shuffled(train, 3)[:100], kind="multilabel", labels=("a", "b")) == []


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ((), "has a high accuracy; judge the task by a metric that counts rare labels: "
         "metrics: [macro_f1, matthews], and class_weights: balanced"),
        (("matthews",), "the task's score, matthews, counts the rare labels too"),
    ],
)  # fmt: skip
def test_a_nearly_constant_label_says_which_metric_to_use(metrics, message):
    labels = shuffled([1] * 195 + [0] * 5)
    (line,) = findings(labels, shuffled(labels, 2), metrics=metrics)
    assert "97.5% of the rows have the label 'yes'" in line
    assert message in line


def test_constant_labels_have_their_own_finding_only():
    found = findings([0] * 50, [0] * 50)
    assert all("which the task lists" in line for line in found)


def test_benchmarks_pass():
    """But for MNLI: the training set of the offline files has too many neutral rows."""
    suites = {
        "glue": ["cola", "mrpc", "stsb", "mnli", "rte", "wnli"],
        "superglue": ["boolq", "cb", "wic", "wsc"],
        "cs224n": ["sst", "sts", "cfimdb"],
    }
    reported = {}
    for suite, only in suites.items():
        for task in load_suite(suite, real_data(), only):
            splits = {name: load_rows(task, name) for name in ("train", "validation")}
            if found := [finding.message for finding in label_findings(splits)]:
                reported[task.name] = found
    assert list(reported) == ["mnli"]
    assert reported["mnli"][0].startswith("label 'neutral': 42% of train, 32% of validation")
