"""Finding the data of a saved model: in its run, in run files and task files, or in `Task` objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError, words
from weft.utils.notes import Tell, print_note

if TYPE_CHECKING:
    from weft.data.splits.split import Split
    from weft.model.model import Model
    from weft.tasks.task import Task


@dataclass(frozen=True)
class KnownTasks:
    """Tasks whose data is known.

    Attributes:
        where: the run files and task files that name the data, for messages.
        tasks: the tasks by name.
    """

    where: str
    tasks: Mapping[str, Task]


def find_tasks(folder: str | Path, files: Sequence[str | Path] | None) -> KnownTasks:
    """Find the data of a saved model's tasks. Imports no torch.

    Args:
        folder: a run's folder, or a bundle.
        files: run files or task files; a later one adds to an earlier one. None: the run.yaml of the run.
    """
    from weft.bundle.manifest import find_bundle

    folder = Path(folder)
    find_bundle(folder)
    if not files and not (folder / "run.yaml").is_file():
        raise WeftError(
            f"{folder} is a bundle, which holds no data; name a run file that says where it is: {_tasks()}"
        )
    return known_tasks(files or [folder / "run.yaml"])


def known_tasks(sources: Sequence[str | Path | Task]) -> KnownTasks:
    """Collect tasks, and the tasks of run files and task files; of equal names the last one counts."""
    from weft.config.run_file import load_tasks
    from weft.tasks.task import Task

    tasks: dict[str, Task] = {}
    for source in sources:
        listed = [source] if isinstance(source, Task) else load_tasks(source)
        tasks |= {task.name: task for task in listed}
    where = [str(source) for source in sources if not isinstance(source, Task)]
    where += ["the list of tasks"] * (len(where) < len(sources))
    return KnownTasks(", ".join(where), tasks)


def in_memory(task: Task) -> bool:
    """Whether rows of the task are in memory and not in files."""
    return any(not isinstance(file, str | Path) and hasattr(file, "__len__") for file in task.files.values())


def tasks_with_data(
    model: Model, source: str | Path, known: KnownTasks, tell: Tell = print_note
) -> list[Task]:
    """Return the model's tasks that have data; a known task that does not match the model's is an error.

    Args:
        model: the model.
        source: the run, bundle or model, for messages.
        known: the tasks with data.
        tell: called with a note that names the tasks without data.
    """
    with_data, without = [], []
    bundle = "the bundle" if isinstance(source, Path) else source
    for task in model.tasks:
        if task.name not in known.tasks:
            without.append(task.name)
            continue
        known_task = known.tasks[task.name]
        if (known_task.kind, known_task.labels, known_task.size) != (task.kind, task.labels, task.size):
            raise WeftError(
                f"task {task.name!r} in {known.where} does not match {bundle}: kind, labels or size differ; "
                f"found {known_task.head} {list(known_task.labels)}, expected {task.head} {list(task.labels)}"
            )
        with_data.append(known_task)
    message = f"{known.where} has no data for {', '.join(without)} of {source}"
    if not with_data:
        raise WeftError(f"{message}; name a run file that has: {_tasks()}")
    if without:
        adding = words("add --tasks FILE with a file that names its data", f"pass {_tasks()}")
        tell(f"{message}: left out; to include it, {adding}")
    return with_data


def labelled_rows(
    tasks: Sequence[Task], split: str, source: str | Path, tell: Tell = print_note
) -> dict[str, Split]:
    """Read the labelled rows of a split, by task name; further sets of a task (`also`) are included.

    Args:
        tasks: the tasks, with their files.
        split: `validation` or `test`.
        source: the run, bundle or model, for messages.
        tell: called with a note that names the tasks without labelled rows.
    """
    from weft.data.readers.read import not_stored
    from weft.data.splits.splits import files_needed
    from weft.data.splits.task_rows import rows_of_task
    from weft.tasks.in_memory import RowsRecord

    labelled: dict[str, Split] = {}
    without: dict[str, str] = {}
    for task in tasks:
        needed = files_needed(task, [split])
        records = [task.files[name] for name in needed if isinstance(task.files.get(name), RowsRecord)]
        if records:
            without[task.name] = not_stored(records[0])  # type: ignore[arg-type]
            continue
        if task.files and any(name not in task.files for name in needed):
            without[task.name] = "no file"
            continue
        for (name, _), rows in rows_of_task(task, [split]).splits.items():
            if rows.labels is None:
                without[name] = f"no labels in {rows.source}"
            else:
                labelled[name] = rows
    reasons = "; ".join(f"{name}: {reason}" for name, reason in without.items())
    if not labelled:
        raise WeftError(
            f"{source}: no task has labels to evaluate on in the split {split!r} ({reasons}); evaluate "
            f"validation, or train with {words('halves: true', 'halves=True')}, which keeps half of the "
            "validation split as test"
        )
    if without:
        tell(f"split {split!r}: not evaluated: {reasons}")
    return labelled


def _tasks() -> str:
    """How to name the data of a model's tasks."""
    return words("--tasks RUN.yaml", "tasks='RUN.yaml', or tasks=[weft.Task(…, data=…)]")
