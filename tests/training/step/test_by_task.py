"""Every example of a step is in one micro-batch of its task, and groups have few sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.every_kind import NAMES, task_of_kind, tokens_of
from tests.support.more import examples
from tests.support.tiny import build
from tests.support.tiny_tokenizers import tiny_tokenizer
from weft.sampling.plan.plan import Plan
from weft.training.step import by_task
from weft.training.step.by_task import groups_of
from weft.training.step.microbatches import MicroBatches
from weft.training.step.shapes import TASK_LENGTHS, Shapes
from weft.utils.processes import Processes


def microbatches_of(names, batch_size, accumulate):
    tasks = [task_of_kind(name) for name in names]
    model = build("bert", "lora", tasks)
    tokens = [tokens_of(task, tiny_tokenizer("words")) for task in tasks]
    plan = Plan(
        [len(t) for t in tokens],
        "uniform",
        seed=3,
        steps=20,
        batch_size=batch_size,
        mixed=True,
        lengths=[t.lengths for t in tokens],
    )
    training = weft.Training(
        lr=1e-3, mixed=True, batch_size=batch_size, accumulate=accumulate, conflict="mean"
    )
    shapes = Shapes(tokens, plan, accumulate, None, by_task=True)
    made = MicroBatches(model, training, tokens, np.arange(len(tasks)), Processes(), shapes)
    return made, plan


@pytest.mark.parametrize(
    "names", [NAMES, ("classify", "regress", "multilabel")], ids=["all kinds", "one row each"]
)
@settings(max_examples=examples(4), deadline=None)
@given(batch_size=st.integers(1, 24), accumulate=st.integers(1, 3), lanes=st.sampled_from([1, 2, 8]))
def test_groups_hold_every_example_once(names, batch_size, accumulate, lanes):
    made, plan = microbatches_of(names, batch_size, accumulate)
    shapes = set()
    for number in range(4):
        step = plan.step(number)
        groups = groups_of(made, step, lanes)
        weights = np.zeros(len(names))
        for group in groups:
            size = len(group.microbatches)
            assert size & (size - 1) == 0
            assert 1 <= len(group.tasks) <= size <= lanes
            forms = {(*m.batch.inputs["input_ids"].shape, m.batch.examples) for m in group.microbatches}
            assert len(forms) == 1
            shapes |= {(form, size) for form in forms}
            for task, microbatch in zip(group.tasks, group.microbatches, strict=False):
                assert set(microbatch.tasks.tolist()) == {task}
                assert len(microbatch.weight) == len(microbatch.tasks) == microbatch.batch.examples
                weights[task] += microbatch.weight.sum()
            for idle in group.microbatches[len(group.tasks) :]:
                assert not idle.weight.any()
        parts = [(group.chunk, task) for group in groups for task in group.tasks]
        assert len(parts) == len(set(parts))
        expected = np.zeros(len(names))
        for microbatch in made.of(step):
            np.add.at(expected, microbatch.tasks, microbatch.weight)
        assert weights == pytest.approx(expected, rel=1e-5)
    assert len({form[1] for form, _ in shapes}) <= TASK_LENGTHS


def test_tasks_of_very_different_sizes_are_not_padded_to_each_other(monkeypatch):
    made, plan = microbatches_of(("classify", "regress", "multilabel"), 24, 1)
    step = plan.step(0)
    monkeypatch.setattr(by_task, "OVERHEAD", 10**9)
    assert len(groups_of(made, step)) == 1
    monkeypatch.setattr(by_task, "OVERHEAD", 0)
    groups = groups_of(made, step)
    rows = [group.microbatches[0].batch.inputs["input_ids"].size(0) for group in groups]
    counts = np.bincount(step.task[: step.real])
    for group, size in zip(groups, rows, strict=True):
        assert len(group.microbatches) == len(group.tasks)  # no lane is idle where that costs something
        assert size >= max(counts[list(group.tasks)])


def test_losses_do_not_depend_on_the_filling():
    """All kinds, several rows per example: a task's examples alone, and filled up to the shape of a group."""
    made, plan = microbatches_of(NAMES, 20, 1)
    model = made.model.eval()
    step = plan.step(1)
    for group in groups_of(made, step):
        for task, microbatch in zip(group.tasks, group.microbatches, strict=False):
            places = np.flatnonzero(step.task[: step.real] == task)
            plain = MicroBatches(model, made.training, made.train, made.ids, Processes()).microbatch(
                step.task[places], step.index[places], step.weight[places]
            )
            with torch.no_grad():
                losses = [
                    model.example_losses(
                        model.run(**m.batch.inputs, examples=m.batch.examples), m.batch.labels
                    )
                    for m in (plain, microbatch)
                ]
            assert losses[1].isfinite().all()
            torch.testing.assert_close(losses[1][: len(places)], losses[0], rtol=1e-4, atol=1e-5)
