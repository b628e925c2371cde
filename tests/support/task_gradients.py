"""A step whose task gradients are merged, as the training loop does it."""

from __future__ import annotations

import numpy as np
import torch

from tests.support.tiny import TASKS, build, labels, no_dropout, scramble
from weft.training.conflict import build_conflict
from weft.training.conflict.gradients import TaskGradients

NAMES = [task.name for task in TASKS]
METHODS = {
    "full": "full",
    "lora": {"use": "lora", "rank": 2},
    "lora-all": {"use": "lora", "rank": 2, "share": "all"},
    "lora-groups": {"use": "lora", "rank": 2, "share": {"first": ["a", "c"], "second": ["b"]}},
    "pals": {"use": "pals", "d_s": 12},
    "morris": {"use": "morris", "rank": 4, "bias_rank": 2},
}


def ready(method):
    return no_dropout(scramble(build("bert", METHODS.get(method, method), head_dropout=0.0)))


def gradients_of(model):
    """Each trained parameter's gradient, and none between."""
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.requires_grad and p.grad is not None}
    model.zero_grad()
    return found


def some(tensors, places):
    return {name: value[places] for name, value in tensors.items()}


def plain(model, inputs, weight):
    model.loss(model.run(**inputs), labels(model, inputs["task"]), weight).backward()
    return gradients_of(model)


def run(model, merging, inputs, weight, parts=1, seed=0):
    """A step as the loop does it."""
    targets = labels(model, inputs["task"])
    present = len(set(inputs["task"].tolist()))
    merging.zero()
    for part in np.array_split(np.arange(len(weight)), parts):
        task = inputs["task"][part]
        for t in task.unique().tolist():
            places = torch.from_numpy(part)[task == t]
            output = model.run(**some(inputs, places))
            (present * model.loss(output, some(targets, places), weight[places])).backward()
            merging.after_backward(t)
    return merging.finish(seed)


def made(model, conflict, processes=None):
    return TaskGradients(model, build_conflict(conflict), NAMES, range(len(NAMES)), processes)


def assert_same(found, expected, tolerance=1e-6):
    assert found.keys() >= expected.keys()
    for name, value in expected.items():
        scale = max(1.0, float(value.abs().max()))
        assert (found[name] - value).abs().max() <= tolerance * scale, name
