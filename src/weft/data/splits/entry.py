"""A task as a run file says it, its data included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.data.readers.source import Source
from weft.tasks.task import OF_SPLITS, SYNTHETIC, Task


def as_run_file(task: Task) -> dict[str, Any]:
    """The entry of the `tasks` section that gives this task again, as far as its data is in files."""
    splits = {key: getattr(task, key) for key, plain in OF_SPLITS.items() if getattr(task, key) != plain}
    if task.suite == SYNTHETIC:
        return {"suite": task.suite, "only": [task.name], **splits}
    further = {
        name: {split: said for split, file in files.items() if (said := _said(file)) is not None}
        for name, files in task.also.items()
    }
    return {
        **task.settings(),
        **{split: said for split, file in task.files.items() if (said := _said(file)) is not None},
        **({"also": further} if further else {}),
        **({"hub": task.hub} if task.hub else {}),
        **splits,
    }


def _said(file: Any) -> object:
    """A file's path; None of rows in memory."""
    if isinstance(file, Source):
        return file.settings()
    return str(file.resolve()) if isinstance(file, Path) else None
