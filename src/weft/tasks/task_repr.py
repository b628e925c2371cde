"""How a task prints: short, whatever it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.tasks.task import Task

LONGEST = 80
"""A value that takes more characters is cut."""


def task_repr(task: Task) -> str:
    """`Task('rte', kind='classify', labels=('yes', 'no'), files={'train': 2490 rows})`, without defaults."""
    shown = [repr(task.name), f"kind={task.kind!r}"]
    for one in fields(task):
        value: Any = getattr(task, one.name)
        if one.name not in ("name", "kind", "also") and value != _default(one):
            shown.append(f"{one.name}={_files(value) if one.name == 'files' else _short(value)}")
    if task.also:
        shown.append(f"also={_short(list(task.also))}")
    return f"Task({', '.join(shown)})"


def _default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _files(files: Mapping[str, Any]) -> str:
    """Of each split the file's path, or how many rows there are in memory."""
    return "{" + ", ".join(f"{split!r}: {_file(file)}" for split, file in files.items()) + "}"


def _file(file: Any) -> str:
    path = getattr(file, "path", file)  # a Source names its file
    return f"{len(file)} rows" if isinstance(file, Sequence) else repr(str(path))


def _short(value: Any) -> str:
    if isinstance(value, tuple) and len(repr(value)) > LONGEST:
        return f"({value[0]!r}, {value[1]!r}, … {len(value)} in all)"[: 2 * LONGEST]
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
