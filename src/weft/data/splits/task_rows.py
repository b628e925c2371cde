"""All rows of a task: its splits, and its further evaluation sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from weft.data.splits.split import Split
from weft.data.splits.splits import prepare
from weft.tasks.task import ALSO, Task


class TaskRows(NamedTuple):
    """The rows of a task.

    Attributes:
        splits: by (name, split); a further set has the name `TASK:SET`.
        notes: what a user should know about their origin.
    """

    splits: dict[tuple[str, str], Split]
    notes: tuple[str, ...]


def rows_of_task(task: Task, names: Sequence[str] = ("train", "validation")) -> TaskRows:
    """Read the rows of a task's splits, and of the further sets that have such splits.

    Args:
        task: the task, with its files.
        names: the requested splits.
    """
    prepared = prepare(task, names)
    splits = {(task.name, name): split for name, split in prepared.splits.items()}
    return TaskRows(splits | further_rows(task, names), prepared.notes)


def further_rows(task: Task, names: Sequence[str]) -> dict[tuple[str, str], Split]:
    """Read the rows of the further sets that have such splits, by (`TASK:SET`, split)."""
    splits: dict[tuple[str, str], Split] = {}
    for further in further_sets(task):
        # of a halved task, `test` is a half of validation: a set with a test file alone, such as GLUE's
        # diagnostic set, has none
        held = {"validation", "test"} if "validation" in further.files else set[str]()
        held = held if task.halves else set(further.files)
        present = [name for name in names if name != "train" and name in held]
        if present:
            rows = prepare(further, present)
            splits |= {(further.name, name): replace(rows[name], task=task) for name in present}
    return splits


def further_sets(task: Task) -> list[Task]:
    """Return each further set as a task `TASK:SET`; its validation rows are halved like the task's."""
    return [
        _named(replace(task, files=dict(files), also={}, cut=None, hub=None, fraction=1.0), further)
        for further, files in task.also.items()
    ]


def _named(task: Task, further: str) -> Task:
    task._set("name", f"{task.name}{ALSO}{further}")  # no task of a user can have such a name
    return task
