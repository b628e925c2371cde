"""The initial head of a new task: copied from another task through a label map, or random."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weft.core.stacked import StackedModule, task_owner
from weft.growing.settings import SAME
from weft.utils.seeding import derived, generator

if TYPE_CHECKING:
    from weft.model.model import Model

HeadValues = dict[str, Tensor]
"""A head's parameters by name: `weight` [C, d'] and `bias` [C], and those of the layers below."""


def head_of(model: Model, name: str) -> HeadValues:
    """Return a task's head as views: writing to them writes to the model. A cosine has no parameters."""
    task = model.task_id(name)
    head = model.heads[model.tasks[task].head]
    assert isinstance(head, StackedModule)
    return {
        part: head.get_parameter(part).data[stack.slots.of_task[task]] for part, stack in head.stacks.items()
    }


def mapped_head(model: Model, source: str, new: str, labels: str | Mapping[str, str]) -> HeadValues:
    """Return the initial head of a new task: the source's head, with its rows selected by label.

    Args:
        model: the model.
        source: the task whose head is copied.
        new: the new task.
        labels: new label → label of the source; or `same`, all rows in their order.
    """
    values = {part: value.clone() for part, value in head_of(model, source).items()}
    if labels == SAME:
        return values
    assert isinstance(labels, Mapping)
    source_labels = model.tasks[model.task_id(source)].labels
    rows = [source_labels.index(labels[label]) for label in model.tasks[model.task_id(new)].labels]
    return {**values, **{part: values[part][rows] for part in ("weight", "bias")}}


def random_head(model: Model, name: str, number: int) -> HeadValues:
    """Return random head number `number`, sampled like initial heads: weights N(0, 0.02²), biases zero."""
    values = {}
    for part, current in head_of(model, name).items():
        if part.startswith("pooler"):
            values[part] = current.clone()  # it starts as the encoder's pooler, which is not random
            continue
        values[part] = torch.zeros_like(current)
        if current.dim() > 1:
            draws = generator(derived(model.seed, f"zero-shot {number}"), task_owner(name), "head", part)
            values[part] = torch.empty(current.shape).normal_(0.0, 0.02, generator=draws).to(current.device)
    return values


@torch.no_grad()
def set_head(model: Model, name: str, values: HeadValues) -> None:
    """Set the values of a task's head."""
    for part, target in head_of(model, name).items():
        target.copy_(values[part])
