"""Where a new task's head begins: at another task's through a label map, or at a draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from weft.grow_settings import SAME
from weft.routing import task_owner
from weft.seeding import derived, generator

if TYPE_CHECKING:
    from weft.model import Model


class HeadValues(NamedTuple):
    """A head: logits = weight·x + bias, weight [C, d] and bias [C]."""

    weight: Tensor
    bias: Tensor


def head_of(model: Model, name: str) -> HeadValues:
    """A task's head, as views: writing to them writes to the model."""
    task = model.task_id(name)
    head = model.heads[model.tasks[task].head]
    found = []
    for part in ("weight", "bias"):
        slots = head.stacks[part].slots  # type: ignore[union-attr, index]
        found.append(head.get_parameter(part).data[slots.of_task[task]])
    return HeadValues(*found)


def mapped_head(model: Model, source: str, new: str, labels: str | Mapping[str, str]) -> HeadValues:
    """The head that a new task begins with: rows of the source's, picked by label.

    Args:
        model: the model.
        source: the task whose head is taken.
        new: the new task.
        labels: new label → label of the source; or `same`, all rows in their order.
    """
    theirs = head_of(model, source)
    if labels == SAME:
        return HeadValues(theirs.weight.clone(), theirs.bias.clone())
    assert isinstance(labels, Mapping)
    known = model.tasks[model.task_id(source)].labels
    rows = [known.index(labels[label]) for label in model.tasks[model.task_id(new)].labels]
    return HeadValues(theirs.weight[rows], theirs.bias[rows])


def random_head(model: Model, name: str, number: int) -> HeadValues:
    """The draw of this number of a head, as heads start: weight N(0, 0.02²), bias zero."""
    own = head_of(model, name)
    draws = generator(derived(model.seed, f"zero-shot {number}"), task_owner(name), "head", "weight")
    weight = torch.empty(own.weight.shape).normal_(0.0, 0.02, generator=draws)
    return HeadValues(weight.to(own.weight.device), torch.zeros_like(own.bias))


@torch.no_grad()
def set_head(model: Model, name: str, values: HeadValues) -> None:
    """Begin a task's head there."""
    for own, value in zip(head_of(model, name), values, strict=True):
        own.copy_(value)
