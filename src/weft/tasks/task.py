"""A task: its name, its kind, and the size of its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from weft.errors import WeftError
from weft.tasks.kinds import KINDS

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Task:
    """One task.

    Args:
        name: letters, digits, `_` and `-`: it names the task's file too.
        kind: a registered kind, such as `classify` or `regress`.
        labels: the label names in the order of their ids (`classify`).
        size: the number of outputs; by default the number of labels, and 1 for `regress`.
    """

    name: str
    kind: str = "classify"
    labels: tuple[str, ...] = ()
    size: int | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise WeftError(f"task name {self.name!r} cannot be used; expected letters, digits, _ and -")
        kind = KINDS[self.kind]()
        object.__setattr__(self, "labels", tuple(str(label) for label in self.labels))
        if len(set(self.labels)) < len(self.labels):
            twice = next(x for x in self.labels if self.labels.count(x) > 1)
            raise WeftError(f"task {self.name!r}: label {twice!r} is given twice")
        object.__setattr__(self, "size", kind.size(self.name, self.labels, self.size))

    @property
    def head(self) -> str:
        """The name of its head's shape, such as `classify-2`: tasks with equal shapes are stacked."""
        return f"{self.kind}-{self.size}"


def check_tasks(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks as a tuple; none at all, or two of one name, is an error."""
    tasks = tuple(tasks)
    if not tasks:
        raise WeftError("no tasks; expected at least one weft.Task")
    for task in tasks:
        if not isinstance(task, Task):
            raise WeftError(f"expected a weft.Task; found {task!r}")
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise WeftError(f"two tasks are named {name!r}")
    return tasks
