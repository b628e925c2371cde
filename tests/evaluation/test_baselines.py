"""Quick baselines of a run: equal in every call, limited, and a line for a task that does not beat them."""

import numpy as np
import pytest
import torch

from tests.support.every_kind import task_of_kind
from weft.data.splits.split import load_split
from weft.evaluation import baselines
from weft.evaluation.baselines import MAJORITY, WORDS, not_beaten, quick_baselines
from weft.tasks import Task
from weft.tasks.kinds import KINDS

KINDS_OF_WORDS = {"classify", "marked", "multilabel", "regress", "similarity"}


def test_each_kind_declares_its_bag_of_words():
    assert {name for name in KINDS if KINDS[name].bag_of_words is not None} == KINDS_OF_WORDS


def quick(names, **settings):
    tasks = [task_of_kind(name, 20) for name in names]
    splits = {task.name: load_split(task, "train") for task in tasks}
    return tasks, quick_baselines(tasks, splits, splits, **settings)


def test_they_are_the_same_in_every_call_and_draw_no_random_numbers():
    tasks = [task_of_kind(name, 20) for name in ("classify", "multilabel", "regress", "tag", "span")]
    splits = {task.name: load_split(task, "train") for task in tasks}
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    found = quick_baselines(tasks, splits, splits)
    assert quick_baselines(tasks, splits, splits) == found
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()
    for task in tasks:
        assert list(found[MAJORITY][task.name]) == list(task.metrics)
        words = found[WORDS][task.name]
        assert list(words) == (list(task.metrics) if task.kind in KINDS_OF_WORDS else [])


def test_rows_are_limited_per_task_and_over_all_tasks(monkeypatch):
    sizes = []
    fit = baselines.bag_of_words

    def counted(task, train, test, quick):
        sizes.append(len(train))
        return fit(task, train, test, quick)

    monkeypatch.setattr(baselines, "bag_of_words", counted)
    monkeypatch.setattr(baselines, "ROWS", 15)
    quick(["classify"])
    monkeypatch.setattr(baselines, "ALL_ROWS", 20)
    quick(["classify", "regress"])
    assert sizes == [15, 10, 10]


def test_time_is_limited(monkeypatch):
    monkeypatch.setattr(baselines, "SECONDS", 0.0)
    _, found = quick(["classify"])
    assert found[WORDS] == {"classify": {}}
    assert found[MAJORITY]["classify"]


def test_a_bag_of_words_learns_label_sets():
    sets = [["cats"] * (i % 2) + ["dogs"] * (i % 3 == 0) for i in range(60)]
    rows = [{"text": f"{' '.join(labels)} run", "label": labels} for labels in sets]
    task = Task("m", "multilabel", labels=("cats", "dogs"), files={"train": rows}, metrics=("exact",))
    split = load_split(task, "train")
    found = quick_baselines([task], {"m": split}, {"m": split})
    assert found[WORDS]["m"]["exact"] == 1
    assert found[MAJORITY]["m"]["exact"] < 0.5


@pytest.mark.parametrize(
    ("score", "beaten", "lines"),
    [
        (0.8, {}, 0),
        (0.7, {"a bag of words (70.0)"}, 1),
        (0.5, {"a majority guess (50.0) and a bag of words (70.0)"}, 1),
    ],
)
def test_a_task_that_does_not_beat_them(score, beaten, lines):
    peers = {MAJORITY: {"x": {"accuracy": 0.5}}, WORDS: {"x": {"accuracy": 0.7}}}
    found = list(not_beaten({"x": {"accuracy": score}}, peers))
    assert len(found) == lines
    for line, text in zip(found, beaten, strict=True):
        assert line.startswith(
            f"x: accuracy {100 * score:.1f} is not better than {text}: try more train.steps"
        )
        assert "weft check" in line


def test_an_error_is_better_if_it_is_lower():
    peers = {MAJORITY: {"x": {"mse": 0.5}}, WORDS: {"x": {}}}
    assert list(not_beaten({"x": {"mse": 0.4}}, peers)) == []
    (line,) = not_beaten({"x": {"mse": 0.6}}, peers)
    assert "mse 0.600 is not better than a majority guess (0.500)" in line
