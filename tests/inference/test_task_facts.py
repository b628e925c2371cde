"""Tasks whose answers are equal but for the name are decoded together; all others are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

import weft
from tests.support.every_kind import NAMES, rows_of_kind, task_of_kind
from tests.support.near import assert_near
from tests.support.tiny import build, scramble
from tests.support.tiny_run import save_encoder
from weft.inference.task_facts import TaskFacts


def test_tasks_alike_share_the_first_ones_number_and_no_other_does():
    one = weft.Task("one", labels=("no", "yes"), texts=("text",), label="label")
    other_words = replace(one, name="words", labels=("bad", "good"))
    tempered = replace(one, name="tempered", temperature=2.0)
    pair = replace(one, name="pair", texts=("a", "b"))
    tasks = (one, other_words, replace(one, name="two"), tempered, pair, replace(tempered, name="three"))
    assert TaskFacts(tasks).alike.tolist() == [0, 1, 0, 3, 4, 3]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.mark.parametrize("kind", NAMES)
def test_copies_of_a_task_answer_as_each_alone(encoder, kind):
    """Whatever the kind, and also if the first of the tasks has no request."""
    tasks = [replace(task_of_kind(kind), name=f"copy_{number}") for number in range(3)]
    model = scramble(weft.Model(encoder, tasks, {"use": "lora", "rank": 2}, max_length=24).eval())
    for numbers in ([2, 1, 2, 1], [0, 2, 1, 0]):
        requests = [(f"copy_{n}", row) for n, row in zip(numbers, rows_of_kind(kind, 4), strict=True)]
        alone = [model.predict([request])[0] for request in requests]
        assert [answer["task"] for answer in alone] == [name for name, _ in requests]
        assert_near(model.predict(requests), alone, 1e-5)


def test_facts_are_kept_until_the_tasks_are_replaced():
    model = build("bert", "frozen")
    facts = model.captures.facts(model.tasks)
    assert model.captures.facts(model.tasks) is facts
    model.tasks = (*model.tasks[:1], *model.tasks[1:])
    assert model.captures.facts(model.tasks) is not facts
