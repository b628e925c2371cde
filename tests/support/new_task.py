"""The task that is added, and how bundles are compared."""

from __future__ import annotations

import torch

import weft
from tests.support.tiny import batch
from tests.support.tiny_run import rows_of
from weft.bundle.one_task import hashes

ROWS = {"train": rows_of("cat", 30, 1), "validation": rows_of("cat", 12, 2)}
CAT = weft.Task("cat", labels=("no", "yes"), files=ROWS)
FAST = weft.Training(steps=2, batch_size=8, max_length=16, lr=0.01, warmup=0)


def add(bundle, out, task=CAT, run=None, **grow):
    """Add a task in two steps."""
    return weft.add_task(bundle, task, out, training=FAST, grow=grow, run=run, progress=False)


@torch.no_grad()
def answers(folder, names):
    """The logits of a batch in which these tasks are mixed."""
    model = weft.load(folder).eval()
    inputs = batch(model, rows=9)
    inputs["task"] = torch.tensor([model.task_id(names[row % len(names)]) for row in range(9)])
    return model.run(**inputs).logits


def assert_same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert torch.equal(a, b)


def assert_all_the_same(one, other):
    """Every file of two folders, byte for byte."""
    assert hashes(one) == hashes(other)
