"""The lines of a file to predict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.split import wrong_text
from weft.errors import WeftError, did_you_mean

if TYPE_CHECKING:
    from weft.tasks.task import Task

Lines = list[tuple[int, dict[str, Any]]]


def read_requests(file: Path) -> Lines:
    """The objects of a jsonl file with their line numbers; blank lines are skipped."""
    if not file.is_file():
        raise WeftError(f"{file}: there is no such file")
    lines: Lines = []
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise WeftError(f"{file}: byte {wrong.start} is not UTF-8") from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as wrong:
            raise WeftError(f"{file}, line {number}: not JSON: {wrong}") from None
        if not isinstance(entry, dict) or not isinstance(entry.get("task"), str):
            raise WeftError(
                f'{file}, line {number}: expected an object with "task"; found {line.strip()[:80]}'
            )
        lines.append((number, entry))
    if not lines:
        raise WeftError(f"{file} holds no line to predict")
    return lines


def as_requests(lines: Lines, tasks: Sequence[Task], file: Path) -> list[tuple[str, tuple[str, ...]]]:
    """(task, texts) of each line: from the task's own columns, else from `text`, or `text_a` and `text_b`."""
    known = {task.name: task for task in tasks}
    found = []
    for number, entry in lines:
        name = entry["task"]
        if name not in known:
            raise WeftError(f"{file}, line {number}: task {name!r}; {did_you_mean(name, known)}")
        own = known[name].texts
        plain = ("text",) if len(own) == 1 else ("text_a", "text_b")
        columns = own if all(c in entry for c in own) else plain
        texts: tuple[Any, ...] = tuple(entry.get(column) for column in columns)
        for column, text in zip(columns, texts, strict=True):
            if wrong := wrong_text(text):
                wanted = " and ".join(repr(c) for c in own)
                raise WeftError(
                    f"{file}, line {number}: {column} is {text!r}; task {name!r} needs {wanted}: {wrong}"
                )
        found.append((name, texts))
    return found
