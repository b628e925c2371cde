"""The `tasks` section: suites, and tasks of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PositiveInt

from weft.config.reading import Reading
from weft.errors import WeftError
from weft.settings import Settings, SettingsError
from weft.tasks.suites import load_suite
from weft.tasks.task import SPLITS, Task, check_tasks


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


class SuiteSpec(Settings):
    """A suite of the `tasks` section."""

    what = "suite"

    suite: str
    root: str | None = None
    only: Names | None = None


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
    hub: str | None = None
    train: str | None = None
    validation: str | None = None
    test: str | None = None


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
        try:
            check_tasks(tasks)
        except WeftError as wrong:
            reading.wrong(["tasks"], str(wrong))
    elif len(reading.mistakes) == before:
        reading.wrong(["tasks"], "no tasks")
    return tuple(tasks), said


def _suite(given: dict[str, Any], reading: Reading) -> tuple[list[Task], dict[str, Any]]:
    spec = SuiteSpec(**given)
    root = None if spec.root is None else str(reading.path(spec.root))
    told = {**spec.model_dump(exclude_none=True), **({"root": root} if root else {})}
    return load_suite(spec.suite, root, spec.only), told


def _task(given: dict[str, Any], reading: Reading) -> tuple[list[Task], dict[str, Any]]:
    if "name" not in given:
        raise WeftError("a task in a list needs the key 'name'")
    spec = TaskSpec(**given)
    told = spec.model_dump(exclude_none=True)
    files = {split: reading.path(told.pop(split)) for split in SPLITS if split in told}
    if not files and spec.hub is None:
        raise WeftError(f"task {spec.name!r} has no data; expected 'train' and 'validation' files, or 'hub'")
    lists: dict[str, Any] = {
        key: tuple(item) if isinstance(item, list) else item for key, item in told.items()
    }
    task = Task(**lists, files={split: Path(file) for split, file in files.items()})
    return [task], {**told, **{split: str(file) for split, file in files.items()}}
