"""The `tasks` section: suites, and tasks of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.config.reading import Reading
from weft.errors import WeftError, did_you_mean
from weft.tasks.suites import load_suite
from weft.tasks.task import SPLITS, Task, check_tasks

SUITE_KEYS = ("suite", "root", "only")
TASK_KEYS = ("name", "kind", "texts", "label", "labels", "size", "metrics", "hub", *SPLITS)


def read_tasks(value: object, reading: Reading) -> tuple[tuple[Task, ...], Any]:
    """The tasks, and what was said of them with paths made absolute."""
    entries: list[tuple[list[str], Any]]
    if isinstance(value, dict) and "suite" in value:
        entries = [(["tasks"], value)]
    elif isinstance(value, dict):
        entries = [
            (["tasks", str(name)], {"name": str(name), **v} if isinstance(v, dict) else v)
            for name, v in value.items()
        ]
    elif isinstance(value, list):
        entries = [(["tasks", str(number)], entry) for number, entry in enumerate(value)]
    else:
        found = "nothing" if value is None else repr(value)
        reading.wrong(
            ["tasks"], f"expected {{suite: swatch}}, or name: {{texts: …, train: FILE}}; found {found}"
        )
        return (), []
    tasks: list[Task] = []
    said: list[dict[str, Any]] = []
    for place, entry in entries:
        if not isinstance(entry, dict):
            reading.wrong(place, f"expected settings of a task or a suite; found {entry!r}")
            continue
        entry = dict(entry)
        known = SUITE_KEYS if "suite" in entry else TASK_KEYS
        unknown = [key for key in entry if key not in known]
        for key in unknown:
            reading.wrong([*place, str(key)], f"no such key; {did_you_mean(str(key), known)}")
        if unknown:
            continue
        try:
            tasks += _suite(entry, reading) if "suite" in entry else [_task(entry, reading)]
            said.append(entry)
        except WeftError as wrong:
            reading.wrong(place, str(wrong))
    if tasks:
        try:
            check_tasks(tasks)
        except WeftError as wrong:
            reading.wrong(["tasks"], str(wrong))
    elif not reading.mistakes:
        reading.wrong(["tasks"], "no tasks")
    return tuple(tasks), said


def _suite(entry: dict[str, Any], reading: Reading) -> list[Task]:
    if entry.get("root") is not None:
        entry["root"] = str(reading.path(str(entry["root"])))
    only = entry.get("only")
    if isinstance(only, str):
        only = entry["only"] = [part.strip() for part in only.split(",")]
    return load_suite(str(entry["suite"]), entry.get("root"), only)


def _task(entry: dict[str, Any], reading: Reading) -> Task:
    if "name" not in entry:
        raise WeftError("a task in a list needs the key 'name'")
    for split in SPLITS:
        if entry.get(split) is not None:
            entry[split] = str(reading.path(str(entry[split])))
    files = {split: Path(entry[split]) for split in SPLITS if entry.get(split) is not None}
    if not files and not entry.get("hub"):
        raise WeftError(
            f"task {entry['name']!r} has no data; expected 'train' and 'validation' files, or 'hub'"
        )
    values: Mapping[str, Any] = {k: v for k, v in entry.items() if k not in SPLITS}
    listed = {
        k: tuple(v) if isinstance(v, list) else (v,)
        for k, v in values.items()
        if k in ("texts", "labels", "metrics") or (k == "label" and isinstance(v, list))
    }
    return Task(**{**values, **listed}, files=files)
