"""The short repr of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any

from weft.tasks.in_memory import RowsInMemory

if TYPE_CHECKING:
    from weft.tasks.task import Task

LONGEST = 80
"""The maximal number of characters of a value; longer ones are truncated."""


def task_repr(task: Task) -> str:
    """Return `Task('rte', kind='classify', files={'train': 2490 rows})`, without default values."""
    shown = [repr(task.name), f"kind={task.kind!r}"]
    for setting in fields(task):
        value: Any = getattr(task, setting.name)
        if setting.name not in ("name", "kind", "also") and value != _default(setting):
            shown.append(f"{setting.name}={_files(value) if setting.name == 'files' else _short(value)}")
    if task.also:
        shown.append(f"also={_short(list(task.also))}")
    return f"Task({', '.join(shown)})"


def _default(setting: Field[Any]) -> Any:
    return setting.default_factory() if setting.default_factory is not MISSING else setting.default


def _files(files: Mapping[str, Any]) -> str:
    """The path of each split's file, or its number of rows in memory."""
    return "{" + ", ".join(f"{split!r}: {_file(file)}" for split, file in files.items()) + "}"


def _file(file: Any) -> str:
    path = getattr(file, "path", file)  # a Source names its file
    return f"{len(file)} rows" if isinstance(file, Sequence | RowsInMemory) else repr(str(path))


def _short(value: Any) -> str:
    if isinstance(value, tuple) and len(repr(value)) > LONGEST:
        return f"({value[0]!r}, {value[1]!r}, … {len(value)} in all)"[: 2 * LONGEST]
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
