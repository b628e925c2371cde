"""The run-file entry of a task, with its data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.data.readers.source import Source
from weft.tasks.task import OF_FILES, OF_SPLITS, SYNTHETIC, Task


def as_run_file(task: Task) -> dict[str, Any]:
    """Return the entry of the `tasks` section that rebuilds this task, if its data is in files."""
    splits = {key: getattr(task, key) for key, default in OF_SPLITS.items() if getattr(task, key) != default}
    dialect = {key: value for key in OF_FILES if (value := getattr(task, key)) is not None}
    if task.suite == SYNTHETIC:
        return {"suite": task.suite, "only": [task.name], **splits}
    further = {
        name: {split: entry for split, file in files.items() if (entry := _file_entry(file)) is not None}
        for name, files in task.also.items()
    }
    return {
        **task.settings(),
        **{split: entry for split, file in task.files.items() if (entry := _file_entry(file)) is not None},
        **({"also": further} if further else {}),
        **({"hub": task.hub} if task.hub else {}),
        **splits,
        **dialect,
    }


def _file_entry(file: Any) -> object:
    """Return the entry of a file; None for rows in memory."""
    if isinstance(file, Source):
        return file.settings()
    return str(file.resolve()) if isinstance(file, Path) else None
