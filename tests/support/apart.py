"""Bundles trained apart, and whether their tasks answer as before where they are together."""

from __future__ import annotations

import hashlib

import torch

import weft
from tests.support.tiny import TASKS, batch
from weft.cli import run

A, B, C, D = TASKS
LORA = {"use": "lora", "rank": 2}
BOTH = {"use": "lora_bitfit", "rank": 2}


@torch.no_grad()
def logits(model, name):
    """A task's logits on rows of that task alone."""
    inputs = batch(model.eval())
    inputs["task"] = torch.full((8,), model.task_id(name))
    return torch.stack(list(model.run(**inputs).logits))


def assert_same(bundles, out, compare=torch.equal):
    """Whether every task answers in the new bundle as in its own."""
    whole = weft.load(out)
    checked = []
    for bundle in bundles:
        alone = weft.load(bundle)
        for task in alone.tasks:
            assert compare(logits(alone, task.name), logits(whole, task.name)), task.name
            checked.append(task)
    assert list(whole.tasks) == checked
    return whole


def close(atol):
    return lambda one, two: torch.allclose(one, two, atol=atol)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def said(capsys, *arguments):
    capsys.readouterr()
    code = run([str(argument) for argument in arguments])
    return code, capsys.readouterr()
