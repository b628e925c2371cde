"""Reading the requests of `weft predict` from a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.readers.lines import text_lines
from weft.errors import WeftError, did_you_mean

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.tasks.task import Task

Lines = list[tuple[int, dict[str, Any]]]
JSON_LINES = (".jsonl", ".json", ".ndjson")
"""The endings of files with one JSON value per line."""


def read_requests(file: Path) -> Lines:
    """Read the objects of a jsonl file with their line numbers; blank lines are skipped."""
    _check_file(file)
    lines: Lines = []
    with text_lines(file) as text:
        for number, line in enumerate(text, 1):
            _read(file, number, line, lines)
    if not lines:
        raise WeftError(f"{file} has no line to predict; expected at least one")
    return lines


def read_texts(file: Path) -> list[tuple[int, Any]]:
    """Read the inputs of `predict_all` with line numbers: JSON values, or else the lines themselves.

    The file's ending decides: see `JSON_LINES`.
    """
    _check_file(file)
    is_json = file.name.lower().removesuffix(".gz").endswith(JSON_LINES)
    texts: list[tuple[int, Any]] = []
    with text_lines(file) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                value = _value(file, number, line) if is_json else line.strip()
                # a JSON list means a pair of texts; `predict_all` takes a pair as a tuple
                texts.append((number, tuple(value) if isinstance(value, list) else value))
    if not texts:
        raise WeftError(f"{file} has no line to predict; expected at least one")
    return texts


def _check_file(file: Path) -> None:
    if not file.is_file():
        problem = "found a folder; expected a file" if file.is_dir() else "there is no such file"
        raise WeftError(f"{file}: {problem}")


def _value(file: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as wrong:
        problem = wrong.msg if isinstance(wrong, json.JSONDecodeError) else wrong
        raise WeftError(
            f"{file}, line {number}: not JSON ({problem}); expected a line such as "
            '{"task": "sentiment", "text": "…"}'
        ) from None


def _read(file: Path, number: int, line: str, lines: Lines) -> None:
    """Append the object of one line, unless the line is blank."""
    if not line.strip():
        return
    entry = _value(file, number, line)
    if not isinstance(entry, dict) or not isinstance(entry.get("task"), str):
        raise WeftError(f'{file}, line {number}: expected an object with "task"; found {line.strip()[:80]}')
    lines.append((number, entry))


def check_names(lines: Lines, tasks: Iterable[str], file: Path) -> None:
    """Refuse a line that names an unknown task; only the names of the model's tasks are needed."""
    known = list(tasks)
    for number, entry in lines:
        if entry["task"] not in known:
            raise _no_task(file, number, entry["task"], known)


def _no_task(file: Path, number: int, name: str, known: Iterable[str]) -> WeftError:
    return WeftError(f"{file}, line {number}: task {name!r} does not exist; {did_you_mean(name, known)}")


def as_requests(lines: Lines, tasks: Sequence[Task], file: Path) -> list[tuple[str, Any]]:
    """Return (task, input) of each line, checked.

    If a line has all columns of the task, these are the input. Otherwise the input is its `text`, or its
    `text_a` and `text_b`, and its `choices` if the task has choices.
    """
    from weft.inference.predict import plain_form, read_request

    by_name = {task.name: task for task in tasks}
    requests: list[tuple[str, Any]] = []
    for number, entry in lines:
        name = entry["task"]
        where = f"{file}, line {number}"
        if name not in by_name:
            raise _no_task(file, number, name, by_name)
        value = plain_form(by_name[name], entry)
        read_request(by_name[name], value, where)
        requests.append((name, value))
    return requests


def as_texts(
    lines: Sequence[tuple[int, Any]], model: Model, names: Sequence[str] | None, file: Path
) -> list[Any]:
    """Return the input of each line. It is checked here, where an error can name the line."""
    from weft.inference.predict_all import inputs_of

    ids = None if names is None else [model.task_id(name) for name in names]
    for number, text in lines:
        inputs_of(model, f"{file}, line {number}", text, ids)
    return [text for _, text in lines]
