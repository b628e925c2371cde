"""The task file: a task that joins a trained model, or one of its own that is trained again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.config.reading import Reading, override_key, parse, read_text
from weft.config.run_file import read_section, read_train, stop_if_wrong
from weft.config.tasks import read_tasks
from weft.errors import WeftError, did_you_mean
from weft.growing.check import mistakes, mistakes_again
from weft.growing.settings import GrowSettings
from weft.methods import Method
from weft.tasks.task import Task
from weft.training.settings import Training

SECTIONS = ("tasks", "train", "grow")
OF_THE_BUNDLE = ("preset", "encoder", "method", "heads", "start")
"""Sections of a run file that a trained model has answered already."""


@dataclass(frozen=True)
class TaskFile:
    """A task file that has been read and found right.

    Attributes:
        task: the task, with its files.
        training: the `train` section; `lr` may be left to what trains.
        grow: the `grow` section.
        resolved: the file with overrides and defaults filled in and paths absolute.
    """

    task: Task
    training: Training
    grow: GrowSettings
    resolved: dict[str, Any]


@dataclass(frozen=True)
class Host:
    """What a task file must fit: a bundle.

    Attributes:
        folder: the bundle.
        tasks: its tasks by name.
        method: its method.
        max_length: the tokens that its texts are cut to.
    """

    folder: Path
    tasks: Mapping[str, Task]
    method: Method
    max_length: int


def host_of(bundle: str | Path, name: str | None = None) -> Host:
    """What a task file is read against.

    Args:
        bundle: a bundle, or a run's folder that holds one.
        name: must be one of its tasks; None: any.
    """
    from weft.bundle.load import find_bundle, read_manifest, read_tasks
    from weft.bundle.one_task import check_has
    from weft.methods import build_method

    folder = find_bundle(bundle)
    manifest = read_manifest(folder)
    if name is not None:
        check_has(folder, manifest, name)
    tasks = read_tasks(folder, manifest, manifest["encoder"]["sha256"])
    return Host(folder, tasks, build_method(manifest["method"]), manifest["max_length"])


def load_task_file(
    source: str | Path, overrides: Sequence[str], host: Host, *, again: str | None = None
) -> TaskFile:
    """Read a task file, with `key=value` overrides on top; all mistakes in one error.

    Args:
        source: a YAML file with the sections `tasks`, `train` and `grow`.
        overrides: such as `train.steps=500` or `grow.fraction=0.01`; values are read as YAML.
        host: the bundle.
        again: the task of it that is to be trained again; None: the file's task is new.
    """
    path = Path(source)
    if not path.is_file():
        raise WeftError(f"there is no task file {str(source)!r}; expected YAML with {', '.join(SECTIONS)}")
    reading = Reading(str(source), path.parent)
    raw = parse(read_text(path), reading)
    for override in overrides:
        override_key(raw, override, reading)
    for key in raw:
        if key in OF_THE_BUNDLE:
            reading.wrong([key], f"this is the bundle's ({host.folder}), and stays; leave it out")
        elif key == "bundle":
            continue  # what run.yaml of an earlier call says of itself
        elif key not in SECTIONS:
            reading.wrong([key], f"no such section; {did_you_mean(key, SECTIONS)}")
    tasks, spec = read_tasks(raw.get("tasks"), reading)
    if len(tasks) > 1:
        names = ", ".join(task.name for task in tasks)
        reading.wrong(["tasks"], f"expected one task; found {names}: of a suite say only: [{tasks[0].name}]")
    section = {} if raw.get("train") is None else raw["train"]
    if isinstance(section, dict):
        section = {"max_length": host.max_length, **section}
    training = read_train(section, [task.name for task in tasks], reading)
    grow = read_section("grow", GrowSettings, raw.get("grow") or {}, reading)
    if training is not None and training.max_length != host.max_length:
        reading.wrong(
            ["train", "max_length"],
            f"{training.max_length}; {host.folder} cuts the texts of all its tasks to {host.max_length} "
            "tokens: leave it out",
        )
    for task in tasks[:1]:
        given = grow or GrowSettings()
        if again is None:
            found = mistakes(task, given, host.tasks, host.method)
        else:
            found = mistakes_again(task, given, host.tasks[again])
        for place, text in found:
            reading.wrong(place, text)
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
