"""The run-file entry of a task, with its data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.data.readers.columns import input_columns
from weft.data.readers.source import Source
from weft.tasks.in_memory import RowsRecord, as_rows
from weft.tasks.task import OF_FILES, OF_SPLITS, SYNTHETIC, Task


def as_run_file(task: Task) -> dict[str, Any]:
    """Return the entry of the `tasks` section that rebuilds this task, if its data is in files.

    Of rows in memory it has a record, `RowsRecord`: their number and the sha256 of the columns that are read.
    """
    splits = {key: getattr(task, key) for key, default in OF_SPLITS.items() if getattr(task, key) != default}
    dialect = {key: value for key in OF_FILES if (value := getattr(task, key)) is not None}
    if task.suite == SYNTHETIC:
        return {"suite": task.suite, "only": [task.name], **splits}
    further = {
        name: {split: _file_entry(file, task) for split, file in files.items()}
        for name, files in task.also.items()
    }
    return {
        **task.settings(),
        **{split: _file_entry(file, task) for split, file in task.files.items()},
        **({"also": further} if further else {}),
        **({"hub": task.hub} if task.hub else {}),
        **splits,
        **dialect,
    }


def _file_entry(file: Any, task: Task) -> object:
    """Return the entry of a file or of rows in memory."""
    if isinstance(file, Source | RowsRecord):
        return file.settings()
    if isinstance(file, Path):
        return str(file.resolve())
    columns = (*input_columns(task), *task.label_columns, *task.id)
    return as_rows(file, "files", task.name).record(columns).settings()
