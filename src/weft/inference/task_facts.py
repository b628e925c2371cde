"""What inference needs to know of all tasks of a model: computed once, because there may be thousands."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.tasks.task import Task

WITHOUT_EFFECT = {
    *("name", "files", "suite", "hub", "metrics", "also", "fraction", "cut", "halves", "split_seed"),
    *("encoding", "delimiter", "quotes", "tuned_on", "calibrated_on"),
}
"""Fields of a task on which its answers do not depend."""


class TaskFacts:
    """Facts about the tasks of a model, valid for one tuple of tasks.

    Args:
        tasks: the tasks, [T].

    Attributes:
        tasks: the tasks.
        inputs: the inputs of a batch that some task needs, besides ids, types, mask and task.
        alike: for each task the first task that reads and decodes in the same way, [T]. Their examples are
            decoded together: with a thousand tasks, a call per task would take most of the time.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        several = any(task.apart or task.choices or KINDS[task.kind].windows for task in tasks)
        used = {"marks": any(task.marks for task in tasks), "example": several}
        self.inputs = [name for name, is_used in used.items() if is_used]
        first: dict[Hashable, int] = {}
        forms = (_form(task, number) for number, task in enumerate(tasks))
        self.alike: NDArray[np.int64] = np.array(
            [first.setdefault(form, number) for number, form in enumerate(forms)], np.int64
        )


def text_form(task: Task, number: int) -> tuple[str, int]:
    """What tasks have in common whose requests are tokenized together: plain texts, or plain pairs.

    Args:
        task: the task.
        number: its number, for a task that has nothing in common with others.
    """
    kind = KINDS[task.kind]
    if kind.windows or kind.channels or task.apart or task.choices or task.marks:
        return "task", number
    return "texts", len(task.texts)


def _form(task: Task, number: int) -> Hashable:
    """What tasks have in common that are decoded together."""
    form = text_form(task, number)
    if form[0] == "task":
        return form
    values = (getattr(task, field.name) for field in fields(task) if field.name not in WITHOUT_EFFECT)
    return form, tuple(map(repr, values))
