"""The identity of a cell: a hash of everything that its numbers depend on.

    identity = sha256(numbers version, settings, the content of the data files, the encoder's files, the
                      identities of the cells it uses)

Two cells with one identity are the same run, on whatever machine, under whatever name and in whatever folder
the files are. So a finished record is found again, and a changed row of data reruns exactly the cells that
read it. Left out is what changes no number but seconds: how often a run logs and writes checkpoints, the
engine, and names of folders. Settings that have their default value are left out too, so that a later version
of weft with more settings finds the same records.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from weft.config.reading import Reading
from weft.config.run_file import RunFile, stop_if_wrong
from weft.config.tasks import read_tasks
from weft.methods import METHODS
from weft.model.head_settings import HeadSettings
from weft.tasks.task import SYNTHETIC, Task
from weft.training.settings import Training
from weft.utils.checksums import file_sha256

NUMBERS_VERSION = 1
"""Raise this when a release changes what a run computes: a default, an initial value, the order of rows.

`tests/experiments/test_numbers_version.py` pins a small run and the defaults, and fails if they change.
"""

WITHOUT_EFFECT = (
    *("engine", "verify_engine", "trunk_cache", "checkpoint_every", "log_every", "baselines"),
    *("trackers", "tensorboard", "starved", "last_evaluation", "parallel"),
)
"""Settings of `train` on which the weights do not depend, or only by rounding."""

WEIGHTS = ("model*.safetensors", "pytorch_model*.bin")
"""The files of a checkpoint that hold weights."""

NOT_OF_TASK = (
    *("files", "also", "suite", "encoding", "delimiter", "quotes"),
    *("thresholds", "tuned_on", "temperature", "calibrated_on"),
)
"""Fields of a task whose effect is in the hash of its data, or that are no settings of a run."""


def identity_of(run_file: RunFile, splits: Sequence[str], uses: Sequence[str] = (), **more: Any) -> str:
    """Return the identity of a run, 64 hexadecimal digits.

    Args:
        run_file: the checked run file.
        splits: the splits that the run reads, with the one that is reported.
        uses: the identities of the cells whose results it uses.
        more: what else its numbers depend on, such as the settings of a peer.
    """
    train = changed(run_file.training.model_dump(mode="json"), defaults_of(Training))
    heads = changed(run_file.heads.model_dump(mode="json"), defaults_of(HeadSettings))
    return digest(
        {
            "numbers": NUMBERS_VERSION,
            "encoder": encoder_facts(run_file.encoder),
            "method": method_facts(run_file.resolved["method"]),
            "heads": heads,
            "train": {key: value for key, value in train.items() if key not in WITHOUT_EFFECT},
            "tasks": [task_facts(task, splits) for task in run_file.tasks],
            "uses": list(uses),
            **more,
        }
    )


def identity_of_action(
    action: Mapping[str, Any],
    seed: int,
    uses: Sequence[str],
    splits: Sequence[str],
    source: str,
    folder: Path,
) -> str:
    """Return the identity of a cell that changes the models of other cells.

    Args:
        action: {name: settings}.
        seed: the cell's random seed.
        uses: the identities of the cells whose models it uses.
        splits: the splits that it reads, with the one that is reported.
        source: the grid, for messages.
        folder: the folder that relative paths start from.
    """
    facts = {
        name: _action_facts(settings, splits, source, folder) if isinstance(settings, dict) else settings
        for name, settings in action.items()
    }
    return digest({"numbers": NUMBERS_VERSION, "action": facts, "seed": seed, "uses": list(uses)})


def _action_facts(
    settings: Mapping[str, Any], splits: Sequence[str], source: str, folder: Path
) -> dict[str, Any]:
    """The settings of an action; of tasks the settings and the content of their data."""
    if "tasks" not in settings:
        return dict(settings)
    tasks = tasks_of_action(settings, source, folder)
    return {**settings, "tasks": [task_facts(task, splits) for task in tasks]}


def tasks_of_action(settings: Mapping[str, Any], source: str, folder: Path) -> tuple[Task, ...]:
    """The tasks that an action adds.

    Args:
        settings: the settings of the action, with `tasks`.
        source: the grid, for messages.
        folder: the folder that relative paths start from.
    """
    reading = Reading(source, folder, generated=True)
    tasks, _ = read_tasks(_plain(settings["tasks"]), reading)
    stop_if_wrong(reading)
    return tasks


def digest(facts: Mapping[str, Any]) -> str:
    """The sha256 of facts, which does not depend on the order of keys."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def changed(settings: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that differ from their defaults."""
    return {key: value for key, value in settings.items() if key not in defaults or value != defaults[key]}


def method_facts(settings: Any) -> Any:
    """The settings of a method, or of each of several, that differ from their defaults."""
    if isinstance(settings, list):
        return [method_facts(part) for part in settings]
    if not isinstance(settings, dict):
        return settings
    defaults = _plain(METHODS[settings["use"]]().settings())
    return {"use": settings["use"], **changed(settings, defaults)}


@cache
def defaults_of(kind: type[Training] | type[HeadSettings]) -> dict[str, Any]:
    """The default of every setting, as JSON has it."""
    return kind().model_dump(mode="json")


def task_facts(task: Task, splits: Sequence[str]) -> dict[str, Any]:
    """What a run's numbers depend on in a task: its settings, and the content of its data.

    Args:
        task: the task.
        splits: the splits that are read.
    """
    plain = {field.name: field.default for field in fields(task) if field.name not in NOT_OF_TASK}
    settings = {key: _plain(getattr(task, key)) for key in plain if key != "data"}
    kept = {
        key: value for key, value in settings.items() if value != _plain(plain[key]) and value not in ([], {})
    }
    if task.suite == SYNTHETIC:  # its rows are generated, and belong to the numbers version
        return {**kept, "generated": task.suite}
    # halves of validation are the test split then, and no test file is read
    read = [split for split in splits if split in task.files and not (split == "test" and task.halves)]
    data = {split: source_facts(task.files[split]) for split in read}
    also = {
        name: {split: source_facts(source) for split, source in of_set.items() if split in read}
        for name, of_set in task.also.items()
    }
    return {**kept, "data": data, "also": also}


def source_facts(source: Any) -> Any:
    """The content of one file, or of rows in memory, by its hash; options that change how it is read."""
    from weft.data.readers.source import HUB, Source
    from weft.tasks.in_memory import RowsInMemory

    if isinstance(source, Source):
        options = {"columns": dict(source.columns), "options": _plain(dict(source.options))}
        kept = {key: value for key, value in options.items() if value}
        if source.format == HUB:
            return {"hub": str(source.path), **kept}
        return {"sha256": _file(source.path), **kept}
    if isinstance(source, str | Path):
        return {"sha256": _file(Path(source))}
    if isinstance(source, RowsInMemory):
        return {"rows": source.record(source.names).sha256}
    if isinstance(source, Sequence):
        return {"rows": digest({"rows": [dict(row) for row in source]})}
    return {"rows": getattr(source, "sha256", str(source))}


@cache
def encoder_facts(name: str) -> dict[str, Any]:
    """The content of an encoder's files by their hashes; a random encoder is its name."""
    from weft.encoder.catalogue import RANDOM, random_parts
    from weft.encoder.files import settings_sha256
    from weft.encoder.limits import config_file
    from weft.encoder.packages import PACKAGES

    if name.startswith(RANDOM):
        architecture, tokenizer = random_parts(name)
        files = {} if tokenizer is None else encoder_facts(tokenizer)["files"]
        return {"random": architecture, "tokenizer": files}
    config = config_file(name)
    if config is None:  # not on this machine yet
        return {"name": name}
    folder = config.parent
    if name in PACKAGES:  # its weights are compared with this when it is loaded
        weights = [PACKAGES[name].sha256]
    else:
        weights = sorted(_file(path) for pattern in WEIGHTS for path in folder.glob(pattern))
    return {"weights": weights, "files": settings_sha256(str(folder))}


@cache
def _hashed(path: Path, size: int, changed_at: int) -> str:
    return file_sha256(path)


def _file(path: Path) -> str:
    """The sha256 of a file; each is read once per call of `weft compare`. A missing one is reported later."""
    try:
        facts = path.stat()
    except OSError:
        return "missing"
    return _hashed(path, facts.st_size, facts.st_mtime_ns)


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    return json.loads(json.dumps(value, default=lambda item: getattr(item, "__dict__", str(item))))
