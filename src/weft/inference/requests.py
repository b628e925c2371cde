"""The lines of a file to predict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.readers.lines import text_lines
from weft.errors import WeftError, did_you_mean

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task

Lines = list[tuple[int, dict[str, Any]]]
JSON_LINES = (".jsonl", ".json", ".ndjson")
"""The endings of files with a JSON value a line."""


def read_requests(file: Path) -> Lines:
    """The objects of a jsonl file with their line numbers; blank lines are skipped."""
    _check_file(file)
    lines: Lines = []
    with text_lines(file) as text:
        for number, line in enumerate(text, 1):
            _read(file, number, line, lines)
    if not lines:
        raise WeftError(f"{file} holds no line to predict")
    return lines


def read_texts(file: Path) -> list[tuple[int, Any]]:
    """What many tasks are to read, with line numbers: the values of JSON lines, else the lines themselves.

    The file's ending tells: see `JSON_LINES`.
    """
    _check_file(file)
    is_json = file.name.lower().removesuffix(".gz").endswith(JSON_LINES)
    texts: list[tuple[int, Any]] = []
    with text_lines(file) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                value = _value(file, number, line) if is_json else line.strip()
                # a list is a pair, as an object is not
                texts.append((number, tuple(value) if isinstance(value, list) else value))
    if not texts:
        raise WeftError(f"{file} holds no line to predict")
    return texts


def _check_file(file: Path) -> None:
    if not file.is_file():
        what = "found a folder; expected a file" if file.is_dir() else "there is no such file"
        raise WeftError(f"{file}: {what}")


def _value(file: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as wrong:
        raise WeftError(f"{file}, line {number}: not JSON: {wrong}") from None


def _read(file: Path, number: int, line: str, lines: Lines) -> None:
    """Add a line's object, unless it is blank."""
    if not line.strip():
        return
    entry = _value(file, number, line)
    if not isinstance(entry, dict) or not isinstance(entry.get("task"), str):
        raise WeftError(f'{file}, line {number}: expected an object with "task"; found {line.strip()[:80]}')
    lines.append((number, entry))


def as_requests(lines: Lines, tasks: Sequence[Task], file: Path) -> list[tuple[str, Any]]:
    """(task, what it reads) of each line, checked.

    From the task's own columns where all are there; else from `text`, or `text_a` and `text_b`, with
    `choices` where the task has some.
    """
    from weft.inference.predict import plain_form, read_request

    known = {task.name: task for task in tasks}
    found: list[tuple[str, Any]] = []
    for number, entry in lines:
        name = entry["task"]
        where = f"{file}, line {number}"
        if name not in known:
            raise WeftError(f"{where}: task {name!r}; {did_you_mean(name, known)}")
        given = plain_form(known[name], entry)
        read_request(known[name], given, where)
        found.append((name, given))
    return found


def as_texts(
    lines: Sequence[tuple[int, Any]], model: Model, names: Sequence[str] | None, file: Path
) -> list[Any]:
    """What each line holds, checked, so that an error names the line, which `predict_all` does not know."""
    from weft.inference.predict_all import inputs_of

    ids = None if names is None else [model.task_id(name) for name in names]
    for number, text in lines:
        inputs_of(model, f"{file}, line {number}", text, ids)
    return [text for _, text in lines]
