"""Spare slots: stacked parameters with room for tasks that are added while a model is served.

A spare slot is a task that nobody can ask for. A new task with the same head shape is copied into it, in
place: nothing is allocated, no CUDA graph is captured again, and no other slot changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.bundle.load import check_dtype
from weft.bundle.padding import fill, fits, ranked_parameters
from weft.bundle.save import in_files, key
from weft.core.stacked import task_owner
from weft.errors import WeftError
from weft.model.ownership import owned

if TYPE_CHECKING:
    from torch import Tensor

    from weft.model.model import Model
    from weft.tasks.task import Task


def spare_tasks(tasks: Sequence[Task], count: int) -> list[Task]:
    """Return `count` spare tasks for each head shape of the tasks, under names that no task has."""
    names = {task.name for task in tasks}
    spares = []
    for task in {task.head: task for task in tasks}.values():
        free = (f"spare-{number}" for number in range(len(names) + count * len(tasks) + 1))
        for name in [name for name in free if name not in names][:count]:
            names.add(name)
            spares.append(replace(task, name=name, files={}))
    return spares


def free_slot(tasks: Sequence[Task], used: Collection[int], task: Task) -> int | None:
    """Return a slot that is not used and has a task's head shape; None if there is none."""
    slots = (slot for slot, spare in enumerate(tasks) if slot not in used and spare.head == task.head)
    return next(slots, None)


def check_slot(model: Model, owner: str, tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors that do not fit into a slot, before anything is copied.

    Args:
        model: the model.
        owner: the owner of the slot, which may be the name of a spare task.
        tensors: the tensors of a task's file.
    """
    ranked = ranked_parameters(model)
    items = {key(item): item for item in owned(model) if item.owner == owner and in_files(item)}
    if items.keys() != tensors.keys():
        odd = sorted(items.keys() ^ tensors.keys())[0]
        raise WeftError(f"the file's tensors are not those of this model: {odd!r} is in one of them only")
    for name, item in items.items():
        check_dtype(item, tensors[name], repr(name))
        if not fits(item, tensors[name], ranked):
            shapes = list(tensors[name].shape), list(item.data.shape)
            raise WeftError(f"{name!r} has shape {shapes[0]}; expected {shapes[1]}")


def fill_slot(model: Model, slot: int, owner: str, task: Task, tensors: Mapping[str, Tensor]) -> None:
    """Copy a task into a slot. No pass may run meanwhile.

    Args:
        model: the model.
        slot: the number of the slot.
        owner: the owner of the slot.
        task: the task, of the slot's head shape.
        tensors: its tensors, which were checked.
    """
    for item in owned(model):
        if item.owner == owner and in_files(item):
            fill(item, tensors[key(item)])
    tasks = list(model.tasks)
    tasks[slot] = task
    model.tasks = tuple(tasks)


def owners_of(tasks: Sequence[Task]) -> list[str]:
    """The owner of each task's slot; it stays when the slot gets a different task."""
    return [task_owner(task.name) for task in tasks]
