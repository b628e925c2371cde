"""Reading and checking task files: one task to add to a trained model, or to retrain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.config.reading import Reading, blame_overrides, override_key, parse
from weft.config.run_file import read_section, read_train, stop_if_wrong
from weft.config.tasks import read_tasks
from weft.errors import WeftError, did_you_mean, run_file_words
from weft.growing.check import mistakes, mistakes_again
from weft.growing.settings import GrowSettings
from weft.methods import Method
from weft.tasks.task import Task
from weft.training.settings import Training
from weft.utils.safe_yaml import read_text

SECTIONS = ("tasks", "train", "grow")
OF_THE_BUNDLE = ("preset", "encoder", "method", "heads", "start")
"""Sections of a run file that are fixed by the trained model."""


@dataclass(frozen=True)
class TaskFile:
    """A checked task file.

    Attributes:
        task: the task, with its files.
        training: the `train` section; if `lr` is None, it depends on what is trained.
        grow: the `grow` section.
        resolved: the file with overrides and defaults filled in and paths absolute.
    """

    task: Task
    training: Training
    grow: GrowSettings
    resolved: dict[str, Any]


@dataclass(frozen=True)
class Host:
    """The bundle that a task file is checked against.

    Attributes:
        folder: the bundle.
        tasks: its tasks by name.
        method: its method.
        max_length: the number of tokens that its texts are truncated to.
    """

    folder: Path
    tasks: Mapping[str, Task]
    method: Method
    max_length: int


def host_of(bundle: str | Path, name: str | None = None) -> Host:
    """Read what a task file is checked against.

    Args:
        bundle: a bundle, or a run's folder that holds one.
        name: a task that the bundle must have; None: no such check.
    """
    from weft.bundle.manifest import check_has, find_bundle, read_bundle, read_manifest
    from weft.methods import build_method

    folder = find_bundle(bundle)
    if name is not None:
        check_has(folder, read_manifest(folder), name)
    manifest, tasks = read_bundle(folder)
    return Host(folder, tasks, build_method(manifest["method"]), manifest["max_length"])


@run_file_words()
def load_task_file(
    source: str | Path, overrides: Sequence[str], host: Host, *, again: str | None = None
) -> TaskFile:
    """Read a task file and apply `key=value` overrides. One error lists all mistakes.

    Args:
        source: a YAML file with the sections `tasks`, `train` and `grow`.
        overrides: such as `train.steps=500` or `grow.fraction=0.01`; values are read as YAML.
        host: the bundle.
        again: the task of the bundle that is retrained; None: the file's task is new.
    """
    path = Path(source)
    if not path.is_file():
        raise WeftError(f"there is no task file {str(source)!r}; expected YAML with {', '.join(SECTIONS)}")
    reading = Reading(str(source), path.parent)
    raw = parse(read_text(path), reading)
    return read_task_file(raw, reading, overrides, host, again)


def read_task_file(
    raw: dict[str, Any], reading: Reading, overrides: Sequence[str], host: Host, again: str | None
) -> TaskFile:
    """Check a parsed task file; all mistakes in one error."""
    plain, before = deepcopy(raw) if overrides else {}, tuple(reading.found)
    for override in overrides:
        override_key(raw, override, reading)
    for key in raw:
        if key in OF_THE_BUNDLE:
            reading.wrong([key], f"this is fixed by the bundle {host.folder}; leave it out")
        elif key == "bundle":
            continue  # run.yaml of an earlier call has this key
        elif key not in SECTIONS:
            reading.wrong([key], f"no such section; {did_you_mean(key, SECTIONS)}")
    tasks, spec = read_tasks(raw.get("tasks"), reading)
    if len(tasks) > 1:
        names = ", ".join(task.name for task in tasks)
        reading.wrong(
            ["tasks"],
            f"expected one task; found {names}: keep one in the file (of a suite: only: [{tasks[0].name}])",
        )
    section = {} if raw.get("train") is None else raw["train"]
    if isinstance(section, dict):
        section = {"max_length": host.max_length, **section}
    training = read_train(section, tasks, reading)
    grow = read_section("grow", GrowSettings, raw.get("grow") or {}, reading)
    if training is not None and training.max_length != host.max_length:
        reading.wrong(
            ["train", "max_length"],
            f"{training.max_length}; {host.folder} truncates the texts of all its tasks to {host.max_length} "
            "tokens: leave it out",
        )
    for task in tasks[:1]:
        settings = grow or GrowSettings()
        if again is None:
            problems = mistakes(task, settings, host.tasks, host.method)
        else:
            problems = mistakes_again(task, settings, host.tasks[again])
        for place, text in problems:
            reading.wrong(place, text)
    if overrides and reading.found:
        blame_overrides(reading, before, lambda alone: read_task_file(plain, alone, (), host, again))
    stop_if_wrong(reading)
    assert training is not None
    assert grow is not None
    resolved = {
        "bundle": str(host.folder.resolve()),
        "tasks": spec,
        "train": training.model_dump(mode="json"),
        "grow": grow.model_dump(mode="json"),
    }
    return TaskFile(tasks[0], training, grow, resolved)
