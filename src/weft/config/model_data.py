"""The data that belongs to a saved model: that of its run, or of run files and task files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.data.splits.split import Split
    from weft.model.model import Model
    from weft.tasks.task import Task


@dataclass(frozen=True)
class Known:
    """Tasks whose data is known.

    Attributes:
        where: the files that say where it is, for messages.
        tasks: the tasks by name.
    """

    where: str
    tasks: Mapping[str, Task]


def find_tasks(folder: Path, files: Sequence[str] | None) -> Known:
    """The tasks whose data is known; without torch.

    Args:
        folder: a run's folder, or a bundle.
        files: run files or task files, of which a later one adds to an earlier; None: the run's own.
    """
    from weft.bundle.load import find_bundle
    from weft.config import load_tasks

    find_bundle(folder)
    if not files and not (folder / "run.yaml").is_file():
        raise WeftError(f"{folder} is a bundle and has no data; say where it is with: --tasks RUN.yaml")
    files = files or [str(folder / "run.yaml")]
    return Known(", ".join(files), {task.name: task for file in files for task in load_tasks(file)})


def tasks_with_data(model: Model, folder: Path, known: Known) -> list[Task]:
    """The model's tasks that have data; others are named in a note, and one that is another is an error."""
    found, without = [], []
    for task in model.tasks:
        if task.name not in known.tasks:
            without.append(task.name)
            continue
        theirs = known.tasks[task.name]
        if (theirs.kind, theirs.labels, theirs.size) != (task.kind, task.labels, task.size):
            raise WeftError(
                f"task {task.name!r} is another one in {known.where}: {theirs.head} {list(theirs.labels)}; "
                f"the model has {task.head} {list(task.labels)}"
            )
        found.append(theirs)
    told = f"{known.where} has no data for {', '.join(without)} of {folder}"
    if not found:
        raise WeftError(f"{told}; say where it is with: --tasks RUN.yaml")
    if without:
        print(f"note: {told}: left out; --tasks FILE, given once more, says where it is", file=sys.stderr)
    return found


def labelled_rows(tasks: Sequence[Task], split: str, folder: Path) -> dict[str, Split]:
    """The labelled rows of a split by name, of further sets too; tasks without are named in a note.

    Args:
        tasks: the tasks, with their files.
        split: `validation` or `test`.
        folder: the run or bundle, for messages.
    """
    from weft.data.splits.splits import files_needed
    from weft.data.splits.task_rows import rows_of_task

    found: dict[str, Split] = {}
    without: dict[str, str] = {}
    for task in tasks:
        needed = files_needed(task, [split])
        if task.files and any(name not in task.files for name in needed):
            without[task.name] = "no file"
            continue
        for (name, _), rows in rows_of_task(task, [split]).splits.items():
            if rows.labels is None:
                without[name] = f"no labels in {rows.source}"
            else:
                found[name] = rows
    told = "; ".join(f"{name}: {why}" for name, why in without.items())
    if not found:
        raise WeftError(
            f"{folder}: no task has labels to be judged by in the split {split!r} ({told}); evaluate "
            "validation, or train with halves: true to have a half of it left as test"
        )
    if without:
        print(f"note: split {split!r}: left out {told}", file=sys.stderr)
    return found
