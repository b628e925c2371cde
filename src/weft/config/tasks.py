"""The `tasks` section: suites, and tasks of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PositiveInt

from weft.config.reading import Reading
from weft.data.readers.source import HUB, Source, as_source
from weft.errors import WeftError, did_you_mean
from weft.settings import Settings, SettingsError
from weft.suites import ON_THE_HUB, find_suite
from weft.suites.overlaps import overlaps, without_twins
from weft.tasks.task import OF_HEADS, OF_SPLITS, SPLITS, Task, check_tasks


def _names(value: object) -> object:
    """A list of names; `a, b` is as good as one, and numbers are names too."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    if isinstance(value, list):
        if any(isinstance(item, bool) for item in value):
            raise ValueError("YAML reads no and yes as false and true; put them in quotes: ['no', 'yes']")
        return [str(item) if isinstance(item, int | float) else item for item in value]
    return value


Names = Annotated[list[str], BeforeValidator(_names)]


_ALWAYS = ("name", "kind", "texts", "label", "labels", "size", "range", "metrics", "hub")


class SuiteSpec(Settings):
    """A suite of the `tasks` section."""

    what = "suite"

    suite: str
    root: str | None = None
    only: Names | None = None
    fraction: float | None = None
    cut: float | None = None
    halves: bool | None = None
    split_seed: int | None = None
    heads: dict[str, dict[str, Any]] = Field(default_factory=dict)


class TaskSpec(Settings):
    """A task of the `tasks` section."""

    what = "task"

    name: str
    kind: str = "classify"
    texts: Names = Field(default_factory=lambda: ["text"])
    label: str | list[str] = "label"
    labels: Names = Field(default_factory=list)
    size: PositiveInt | None = None
    range: list[float] | None = None
    metrics: Names = Field(default_factory=list)
    choices: Names = Field(default_factory=list)
    marks: list[dict[str, Any]] = Field(default_factory=list)
    group: Names = Field(default_factory=list)
    id: Names = Field(default_factory=list)
    drop: Names = Field(default_factory=list)
    apart: bool = False
    compare: str | None = None
    rank_loss: str | None = None
    stride: int | None = None
    class_weights: str | list[float] = Field(default_factory=list)
    pool: str | None = None
    layers: int | None = None
    hidden: int | None = None
    hub: str | None = None
    train: str | dict[str, Any] | None = None
    validation: str | dict[str, Any] | None = None
    test: str | dict[str, Any] | None = None
    also: dict[str, dict[str, Any]] = Field(default_factory=dict)
    fraction: float = 1.0
    cut: float | None = None
    halves: bool = False
    split_seed: int = 1


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
    before = len(reading.mistakes)
    tasks: list[Task] = []
    said: list[dict[str, Any]] = []
    for place, entry in entries:
        if not isinstance(entry, dict):
            reading.wrong(place, f"expected settings of a task or a suite; found {entry!r}")
            continue
        given = {str(key): item for key, item in entry.items() if item is not None}
        try:
            made, told = _suite(given, reading) if "suite" in given else _task(given, reading)
        except SettingsError as wrong:
            for key, text in wrong.mistakes:
                reading.wrong([*place, key], text)
        except WeftError as wrong:
            reading.wrong(place, str(wrong))
        else:
            tasks += made
            said.append(told)
    if tasks:
        tasks, twins = without_twins(tasks)
        reading.notes += twins
        reading.warnings += overlaps(tasks)
        try:
            check_tasks(tasks)
        except WeftError as wrong:
            reading.wrong(["tasks"], str(wrong))
    elif len(reading.mistakes) == before:
        reading.wrong(["tasks"], "no tasks")
    return tuple(tasks), said


def _suite(given: dict[str, Any], reading: Reading) -> tuple[list[Task], dict[str, Any]]:
    spec = SuiteSpec(**given)
    root = spec.root if spec.root in (None, ON_THE_HUB) else str(reading.path(spec.root))
    told = {**spec.model_dump(exclude_none=True), **({"root": root} if root else {})}
    if not spec.heads:
        told.pop("heads")
    found = find_suite(spec.suite, root, spec.only)
    reading.notes += found.notes
    changes = {key: getattr(spec, key) for key in OF_SPLITS if getattr(spec, key) is not None}
    names = [task.name for task in found.tasks]
    for name, head in spec.heads.items():
        if name not in names:
            raise WeftError(
                f"heads: suite {spec.suite!r} gives no task {name!r}; {did_you_mean(name, names)}"
            )
        for key in head:
            if key not in OF_HEADS:
                raise WeftError(f"heads: {name}: no such setting {key!r}; {did_you_mean(key, OF_HEADS)}")
    return [replace(task, **changes, **spec.heads.get(task.name, {})) for task in found.tasks], told


def _task(given: dict[str, Any], reading: Reading) -> tuple[list[Task], dict[str, Any]]:
    if "name" not in given:
        raise WeftError("a task in a list needs the key 'name'")
    spec = TaskSpec(**given)
    told = spec.model_dump(exclude_none=True)
    # a key at its default is not said, so that a run file of before still means the same
    told = {key: value for key, value in told.items() if key in _ALWAYS or key in spec.model_fields_set}
    files = {split: _file(told.pop(split), reading) for split in SPLITS if split in told}
    further = {
        name: {split: _file(file, reading) for split, file in sets.items()}
        for name, sets in told.pop("also", {}).items()
    }
    if not files and spec.hub is None:
        raise WeftError(f"task {spec.name!r} has no data; expected 'train' and 'validation' files, or 'hub'")
    lists: dict[str, Any] = {
        key: tuple(item) if isinstance(item, list) else item for key, item in told.items()
    }
    task = Task(**lists, files=files, also=further)
    told |= {split: _said(file) for split, file in files.items()}
    if further:
        told["also"] = {name: {s: _said(file) for s, file in own.items()} for name, own in further.items()}
    return [task], told


def _file(said: Any, reading: Reading) -> Path | Source:
    """A file of the run file: its path is from there."""
    if isinstance(said, str):
        return reading.path(said)
    given = dict(said)
    if isinstance(given.get("path"), str) and given.get("format") != HUB:
        given["path"] = reading.path(given["path"])
    return as_source(given)


def _said(file: Path | Source) -> object:
    return file.settings() if isinstance(file, Source) else str(file)
