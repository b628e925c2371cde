"""The data that belongs to a model: that of its run, of run files and task files, or of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.utils.notes import Tell, print_note

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


def find_tasks(folder: str | Path, files: Sequence[str | Path] | None) -> Known:
    """The tasks whose data is known, for a saved model; without torch.

    Args:
        folder: a run's folder, or a bundle.
        files: run files or task files, of which a later one adds to an earlier; None: the run's own.
    """
    from weft.bundle.load import find_bundle

    folder = Path(folder)
    find_bundle(folder)
    if not files and not (folder / "run.yaml").is_file():
        raise WeftError(
            f"{folder} is a bundle and has no data; name it with: --tasks RUN.yaml (in Python: tasks=…)"
        )
    return known_tasks(files or [folder / "run.yaml"])


def known_tasks(given: Sequence[str | Path | Task]) -> Known:
    """Tasks as they are, and those of run files and task files; a later one takes the place of an earlier."""
    from weft.config.run_file import load_tasks
    from weft.tasks.task import Task

    tasks: dict[str, Task] = {}
    for one in given:
        tasks |= {task.name: task for task in ([one] if isinstance(one, Task) else load_tasks(one))}
    where = [str(one) for one in given if not isinstance(one, Task)]
    where += ["the tasks given"] * (len(where) < len(given))
    return Known(", ".join(where), tasks)


def tasks_with_data(model: Model, source: str | Path, known: Known, tell: Tell = print_note) -> list[Task]:
    """The model's tasks that have data, as `known` has them; one that does not match the model is an error.

    Args:
        model: the model.
        source: where it comes from, for messages.
        known: the tasks with data.
        tell: takes a note that names the tasks without.
    """
    found, without = [], []
    whose = "the bundle" if isinstance(source, Path) else source
    for task in model.tasks:
        if task.name not in known.tasks:
            without.append(task.name)
            continue
        theirs = known.tasks[task.name]
        if (theirs.kind, theirs.labels, theirs.size) != (task.kind, task.labels, task.size):
            raise WeftError(
                f"task {task.name!r} in {known.where} does not match {whose}: kind, labels or size differ; "
                f"found {theirs.head} {list(theirs.labels)}, expected {task.head} {list(task.labels)}"
            )
        found.append(theirs)
    told = f"{known.where} has no data for {', '.join(without)} of {source}"
    if not found:
        raise WeftError(f"{told}; say where it is with: --tasks RUN.yaml (in Python: tasks=…)")
    if without:
        tell(f"{told}: left out; a further --tasks FILE says where it is")
    return found


def labelled_rows(
    tasks: Sequence[Task], split: str, source: str | Path, tell: Tell = print_note
) -> dict[str, Split]:
    """The labelled rows of a split by name, of further sets too; tasks without are named in a note.

    Args:
        tasks: the tasks, with their files.
        split: `validation` or `test`.
        source: the run, bundle or model, for messages.
        tell: takes the note.
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
            f"{source}: no task has labels to evaluate on in the split {split!r} ({told}); evaluate "
            "validation, or train with halves: true to have a half of it left as test"
        )
    if without:
        tell(f"split {split!r}: left out {told}")
    return found
