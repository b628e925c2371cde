"""Reading the `tasks` section of a run file: suites, and tasks that the file defines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PositiveInt

from weft.config.head_effects import without_effect
from weft.config.reading import Reading
from weft.data.readers.formats import FORMATS, format_of, options_of
from weft.data.readers.source import HUB, Source, as_source
from weft.data.splits.labels import labels_in_train
from weft.errors import WeftError, did_you_mean
from weft.model.head_settings import HeadSettings
from weft.settings import Settings, SettingsError
from weft.suites import ON_THE_HUB, find_suite, suite_tasks, with_head
from weft.suites.overlaps import overlaps, without_twins
from weft.tasks.in_memory import RowsRecord
from weft.tasks.task import OF_FILES, OF_HEADS, OF_SPLITS, SPLITS, Task, check_tasks


def _names(value: object) -> object:
    """A list of names; the text `a, b` is also accepted, and numbers become names."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    if isinstance(value, list):
        if any(isinstance(item, bool) for item in value):
            raise ValueError("YAML reads no and yes as false and true; put them in quotes: ['no', 'yes']")
        return [str(item) if isinstance(item, int | float) else item for item in value]
    return value


Names = Annotated[list[str], BeforeValidator(_names)]
Drop = Annotated[list[str | None], BeforeValidator(_names)]


OF_SUITE_HEADS = (*OF_HEADS, "compare", "targets")
"""The settings of a suite's `heads`, for each of its tasks."""

_ALWAYS = ("name", "kind", "texts", "label", "labels", "size", "range", "metrics", "hub")
"""Keys of a task that the resolved run file always has."""


class SuiteSpec(Settings):
    """The settings of a suite in the `tasks` section."""

    what = "suite"

    suite: str
    root: str | None = None
    only: Names | None = None
    fraction: float | None = None
    cut: float | None = None
    halves: bool | None = None
    split_seed: int | None = None
    heads: dict[str, dict[str, Any]] = Field(default_factory=dict)
    metrics: dict[str, Names] = Field(default_factory=dict)
    twins: bool | None = None


SUITE_KEYS = tuple(SuiteSpec.model_fields)


class TaskSpec(Settings):
    """The settings of a task in the `tasks` section."""

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
    drop: Drop = Field(default_factory=list)
    apart: bool = False
    compare: str | None = None
    targets: str | None = None
    rank_loss: str | None = None
    stride: int | None = None
    class_weights: str | list[float] = Field(default_factory=list)
    thresholds: list[float] = Field(default_factory=list)
    tuned_on: str | None = None
    temperature: float | None = None
    calibrated_on: str | None = None
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
    encoding: str | None = None
    delimiter: str | None = None
    quotes: bool | None = None


def read_tasks(
    value: object, reading: Reading, heads: HeadSettings | None = None
) -> tuple[tuple[Task, ...], Any]:
    """Read the `tasks` section. Returns the tasks, and their settings with absolute paths.

    Args:
        value: the section.
        reading: collects mistakes and notes.
        heads: the `heads` section, which applies to tasks that leave its settings open; by default its
            defaults.
    """
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
        shown = "nothing" if value is None else repr(value)
        reading.wrong(
            ["tasks"], f"expected {{suite: swatch}}, or name: {{texts: …, train: FILE}}; found {shown}"
        )
        return (), []
    before = len(reading.found)
    tasks: list[Task] = []
    resolved: list[dict[str, Any]] = []
    for place, entry in entries:
        if not isinstance(entry, dict):
            reading.wrong(place, f"expected the settings of a task or a suite; found {entry!r}")
            continue
        settings = {str(key): item for key, item in entry.items() if item is not None}
        try:
            read = _suite if "suite" in settings else _task
            entry_tasks, resolved_entry = read(settings, reading)
            for key, text in _ineffective(settings, entry_tasks, heads or HeadSettings(), reading):
                reading.wrong([*place, *key], text)
        except SettingsError as wrong:
            for key, text in wrong.mistakes:
                reading.wrong([*place, key], text)
        except WeftError as wrong:
            reading.wrong(place, str(wrong))
        else:
            tasks += entry_tasks
            resolved.append(resolved_entry)
    if tasks:
        reading.warnings += overlaps(tasks)
        tasks, twins = without_twins(tasks, [entry["suite"] for entry in resolved if entry.get("twins")])
        reading.notes += twins
        try:
            check_tasks(tasks)
        except WeftError as wrong:
            reading.wrong(["tasks"], str(wrong))
    elif len(reading.found) == before:
        reading.wrong(["tasks"], "no tasks")
    return tuple(tasks), resolved


def _suite(settings: dict[str, Any], reading: Reading) -> tuple[list[Task], dict[str, Any]]:
    spec = SuiteSpec(**settings)
    root = spec.root if spec.root in (None, ON_THE_HUB) else str(reading.path(spec.root))
    resolved = {**spec.model_dump(exclude_none=True), **({"root": root} if root else {})}
    for key in ("heads", "metrics"):
        if not resolved[key]:
            resolved.pop(key)
    suite = find_suite(spec.suite, root, spec.only)
    reading.notes += suite.notes
    changes = {key: getattr(spec, key) for key in OF_SPLITS if getattr(spec, key) is not None}
    # settings of tasks that `only` or the folder leaves out are not mistakes: both may change from run to run
    names = suite_tasks(spec.suite)
    _check_names("heads", spec.heads, names, spec.suite)
    _check_names("metrics", spec.metrics, names, spec.suite)
    heads: dict[str, dict[str, Any]] = {}
    for name, head in spec.heads.items():
        for key in head:
            if key not in OF_SUITE_HEADS:
                raise WeftError(
                    f"heads: {name}: no such setting {key!r}; {did_you_mean(key, OF_SUITE_HEADS)}"
                )
        # a task that the suite compares by the cosine has a head of the suite's own, if it is to have one
        heads[name] = {**(with_head(spec.suite, name) if head.get("compare") == "head" else {}), **head}
    tasks = []
    for task in suite.tasks:
        settings_of_task: dict[str, Any] = {**changes, **heads.get(task.name, {})}
        if task.name in spec.metrics:
            settings_of_task["metrics"] = tuple(spec.metrics[task.name])
        tasks.append(replace(task, **settings_of_task))
    return tasks, resolved


def _check_names(key: str, named: Iterable[str], names: Sequence[str], suite: str) -> None:
    """Refuse a setting of a task that the suite does not have."""
    for name in named:
        if name not in names:
            raise WeftError(f"{key}: suite {suite!r} has no task {name!r}; {did_you_mean(name, names)}")


def _ineffective(
    settings: dict[str, Any], tasks: list[Task], heads: HeadSettings, reading: Reading
) -> list[tuple[list[str], str]]:
    """The settings of a task or of a suite's tasks that have no effect: key and reason."""
    if reading.generated:
        return []
    written: dict[str, dict[str, Any]] = settings.get("heads", {}) if "suite" in settings else {}
    return [
        (["heads", task.name, key] if "suite" in settings else [key], text)
        for task in tasks
        for key, text in without_effect(
            task, written.get(task.name, {}) if "suite" in settings else settings, heads
        )
    ]


def _task(settings: dict[str, Any], reading: Reading) -> tuple[list[Task], dict[str, Any]]:
    if "name" not in settings:
        raise WeftError("a task in a list needs the key 'name'")
    spec = TaskSpec(**settings)
    resolved = spec.model_dump(exclude_none=True)
    # keys at their defaults are left out, so that run files written by earlier versions resolve equally
    resolved = {
        key: value for key, value in resolved.items() if key in _ALWAYS or key in spec.model_fields_set
    }
    files = {split: _file(resolved.pop(split), reading) for split in SPLITS if split in resolved}
    further = {
        name: {split: _file(file, reading) for split, file in sets.items()}
        for name, sets in resolved.pop("also", {}).items()
    }
    _check_dialect(spec, [*files.values(), *(file for sets in further.values() for file in sets.values())])
    if not files and spec.hub is None:
        raise WeftError(f"task {spec.name!r} has no data; expected 'train' and 'validation' files, or 'hub'")
    if not spec.labels and spec.size is None and isinstance(spec.label, str):
        # the run's own file has them, so that later commands and other splits use the same list
        keys = {key: value for key in OF_FILES if (value := getattr(spec, key)) is not None}
        hub = spec.hub if not files else None
        resolved["labels"] = list(
            labels_in_train(spec.kind, spec.label, files.get("train"), hub, spec.drop, keys)
        )
    lists: dict[str, Any] = {
        key: tuple(item) if isinstance(item, list) else item for key, item in resolved.items()
    }
    task = Task(**lists, files=files, also=further)
    resolved |= {split: _file_settings(file) for split, file in files.items()}
    if further:
        resolved["also"] = {
            name: {split: _file_settings(file) for split, file in sets.items()}
            for name, sets in further.items()
        }
    return [task], resolved


def _file(value: Any, reading: Reading) -> Path | Source | RowsRecord:
    """A data file named in the run file, with an absolute path."""
    if isinstance(value, str):
        return reading.path(value)
    settings = dict(value)
    if isinstance(settings.get("path"), str) and settings.get("format") != HUB:
        settings["path"] = reading.path(settings["path"])
    return as_source(settings)


def _check_dialect(spec: TaskSpec, files: Sequence[Path | Source | RowsRecord]) -> None:
    """Refuse a key such as `delimiter` if none of the task's files has it."""
    forms = [
        file.form if isinstance(file, Source) else format_of(file.name) if isinstance(file, Path) else None
        for file in files
    ]
    for key in OF_FILES:
        having = [form for form in FORMATS if key in options_of(form)]
        if getattr(spec, key) is not None and not any(form in having for form in forms if form):
            kinds = ", ".join(dict.fromkeys(form for form in forms if form)) or "none"
            raise WeftError(
                f"task {spec.name!r}: {key}: expected files of the formats {', '.join(having)}; found {kinds}"
            )


def _file_settings(file: Path | Source | RowsRecord) -> object:
    return str(file) if isinstance(file, Path) else file.settings()
