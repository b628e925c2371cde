"""The data that belongs to a saved model: that of its run, or of a run file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.model import Model
    from weft.tasks.task import Task


def find_tasks(folder: Path, tasks: str | None) -> tuple[Path, dict[str, Task]]:
    """The run file that says where the data is, and its tasks by name; without torch.

    Args:
        folder: a run's folder, or a bundle.
        tasks: a run file, or None for the run's own.
    """
    from weft.bundle.load import find_bundle
    from weft.config import load_tasks

    find_bundle(folder)
    run_file = folder / "run.yaml" if tasks is None else Path(tasks)
    if tasks is None and not run_file.is_file():
        raise WeftError(f"{folder} is a bundle and has no data; say where it is with: --tasks RUN.yaml")
    return run_file, {task.name: task for task in load_tasks(str(run_file))}


def check_same_tasks(model: Model, folder: Path, run_file: Path, known: dict[str, Task]) -> None:
    """An error if a task of the model has no data there, or is another one there."""
    for task in model.tasks:
        if task.name not in known:
            raise WeftError(f"{run_file} has no data for the task {task.name!r} of {folder}")
        theirs = known[task.name]
        if (theirs.kind, theirs.labels, theirs.size) != (task.kind, task.labels, task.size):
            raise WeftError(
                f"task {task.name!r} is another one in {run_file}: {theirs.head} {list(theirs.labels)}; "
                f"the model has {task.head} {list(task.labels)}"
            )
