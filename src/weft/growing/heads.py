"""Where a new task's head begins: at another task's through a label map, or at a draw."""

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
    """A task's head, as views: writing to them writes to the model. A cosine has none."""
    task = model.task_id(name)
    head = model.heads[model.tasks[task].head]
    assert isinstance(head, StackedModule)
    return {
        part: head.get_parameter(part).data[stack.slots.of_task[task]] for part, stack in head.stacks.items()
    }


def mapped_head(model: Model, source: str, new: str, labels: str | Mapping[str, str]) -> HeadValues:
    """The head that a new task begins with: the source's, its rows picked by label.

    Args:
        model: the model.
        source: the task whose head is taken.
        new: the new task.
        labels: new label → label of the source; or `same`, all rows in their order.
    """
    theirs = {part: value.clone() for part, value in head_of(model, source).items()}
    if labels == SAME:
        return theirs
    assert isinstance(labels, Mapping)
    known = model.tasks[model.task_id(source)].labels
    rows = [known.index(labels[label]) for label in model.tasks[model.task_id(new)].labels]
    return {**theirs, **{part: theirs[part][rows] for part in ("weight", "bias")}}


def random_head(model: Model, name: str, number: int) -> HeadValues:
    """The draw of this number of a head, as heads start: weights N(0, 0.02²), biases zero."""
    found = {}
    for part, own in head_of(model, name).items():
        if part.startswith("pooler"):
            found[part] = own.clone()  # it starts at the encoder's, which is no draw
            continue
        found[part] = torch.zeros_like(own)
        if own.dim() > 1:
            draws = generator(derived(model.seed, f"zero-shot {number}"), task_owner(name), "head", part)
            found[part] = torch.empty(own.shape).normal_(0.0, 0.02, generator=draws).to(own.device)
    return found


@torch.no_grad()
def set_head(model: Model, name: str, values: HeadValues) -> None:
    """Begin a task's head there."""
    for part, own in head_of(model, name).items():
        own.copy_(values[part])
