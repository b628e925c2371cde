"""The argument `data` of a task: its rows by split, the labels found in them, and their validation part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError, did_you_mean
from weft.tasks.in_memory import RowsInMemory, as_rows, rows_or_none
from weft.tasks.values import is_missing

if TYPE_CHECKING:
    from weft.tasks.kinds.kind import Kind
    from weft.tasks.task import Task

CUT = 0.1
"""The share of the rows of `data` that validates if there are no validation rows."""


def rows_by_split(data: Any, task: str, splits: Sequence[str]) -> dict[str, RowsInMemory]:
    """Return the rows of each split of a task's `data`.

    Args:
        data: one frame, data set or list, which is the split `train`; or a mapping of splits to them, such as
            a `datasets.DatasetDict`.
        task: the task's name, for messages.
        splits: the names that a split may have.
    """
    if not isinstance(data, Mapping):
        return {"train": as_rows(data, "data", task)}
    for split in data:
        if split not in splits:
            names = ", ".join(f"{name!r}: …" for name in splits)
            raise WeftError(
                f"task {task!r}: data has the split {split!r}; expected some of {{{names}}}: choose the "
                "splits to use, such as data={'train': d['train'], 'validation': d['dev']}"
            )
    if not data:
        raise WeftError(f"task {task!r}: data is empty; expected data={{'train': …, 'validation': …}}")
    return {split: as_rows(rows, f"data[{split!r}]", task) for split, rows in data.items()}


def as_file(file: Any, source: str) -> Any:
    """Return an entry of `files` or `also`: a string as a path, a frame or data set as rows in memory.

    Args:
        file: the entry.
        source: what messages call rows in memory.
    """
    if isinstance(file, str):
        return Path(file)
    # a list of dicts stays as it is: its rows are counted from 1
    rows = None if isinstance(file, Sequence) else rows_or_none(file, source)
    return file if rows is None else rows


def found_labels(task: Task, kind: Kind) -> tuple[str, ...]:
    """Return the labels of the training rows if they are in memory: those that the data set names, or sorted.

    Missing labels and those that the task drops are left out.
    """
    rows: Any = task.files.get("train")
    columns = task.label_columns
    if not isinstance(rows, RowsInMemory):
        return ()
    for column in columns:
        if column not in rows.names:
            raise WeftError(
                f"task {task.name!r}: {rows.source} has no column {column!r}, the label; "
                f"{did_you_mean(column, rows.names)}"
            )
    if len(columns) == 1 and (names := rows.label_names(columns[0])):
        return names
    values = {
        column: [v for v in rows.column(column) if not is_missing(v) and not dropped(v, task.drop)]
        for column in columns
    }
    try:
        return kind.found_labels(values)
    except ValueError as wrong:
        raise WeftError(f"task {task.name!r}: {rows.source}, column {columns[0]!r}: {wrong}") from None


def dropped(value: object, drop: Sequence[str | None]) -> bool:
    """Whether a task leaves out rows with this label; None in `drop` stands for a missing label."""
    if is_missing(value):
        return None in drop
    return str(value).strip().removesuffix(".0") in drop  # −1.0 is written −1
