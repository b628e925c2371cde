"""All rows of a task: its splits, and the further sets that are judged beside them."""

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
        notes: what a user should know of how they came about.
    """

    splits: dict[tuple[str, str], Split]
    notes: tuple[str, ...]


def rows_of_task(task: Task, names: Sequence[str] = ("train", "validation")) -> TaskRows:
    """Read the rows of a task's splits, and of its further sets where one has such a split.

    Args:
        task: the task, with its files.
        names: the splits that are wanted.
    """
    prepared = prepare(task, names)
    splits = {(task.name, name): split for name, split in prepared.splits.items()}
    return TaskRows(splits | further_rows(task, names), prepared.notes)


def further_rows(task: Task, names: Sequence[str]) -> dict[tuple[str, str], Split]:
    """The rows of the further sets that have such splits, by (`TASK:SET`, split)."""
    found: dict[tuple[str, str], Split] = {}
    for further in further_sets(task):
        halved = task.halves and "validation" in further.files
        own = [name for name in names if name != "train" and (name in further.files or halved)]
        if own:
            rows = prepare(further, own)
            found |= {(further.name, name): replace(rows[name], task=task) for name in own}
    return found


def further_sets(task: Task) -> list[Task]:
    """Each further set as a task of the name `TASK:SET`; its validation rows are halved as the task's are."""
    return [
        _named(replace(task, files=dict(files), also={}, cut=None, hub=None, fraction=1.0), further)
        for further, files in task.also.items()
    ]


def _named(task: Task, further: str) -> Task:
    task._set("name", f"{task.name}{ALSO}{further}")  # no user's task can have such a name
    return task
