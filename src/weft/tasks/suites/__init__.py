"""The built-in suites: groups of tasks that are loaded by one name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from weft.errors import WeftError, did_you_mean
from weft.tasks.task import SPLITS, Task

SUFFIXES = (".parquet", ".jsonl", ".tsv", ".csv", ".jsonl.gz", ".tsv.gz", ".csv.gz")
SYNTHETIC = "swatch"


def suite_names() -> list[str]:
    """The suites there are."""
    here = resources.files(__name__)
    tables = [p.name.removesuffix(".yaml") for p in here.iterdir() if p.name.endswith(".yaml")]
    return sorted([*tables, SYNTHETIC])


def load_suite(name: str, root: str | Path | None = None, only: Sequence[str] | None = None) -> list[Task]:
    """The tasks of a suite, with their files.

    Args:
        name: one of `suite_names()`.
        root: the folder that holds the data, as ROOT/SUITE/TASK/train.parquet or ROOT/TASK/train.parquet
            (or jsonl, tsv, csv); `swatch` needs none.
        only: the tasks to take; by default those that have files.
    """
    if name not in suite_names():
        raise WeftError(f"suite {name!r} does not exist; {did_you_mean(name, suite_names())}")
    if name == SYNTHETIC:
        return [_swatch(task) for task in _chosen(name, _swatch_names(), only)]
    table = _table(name)
    if root is None:
        raise WeftError(f"suite {name!r} needs 'root', the folder that holds its data")
    folder = Path(root)
    if not folder.is_dir():
        raise WeftError(f"suite {name!r}: root {str(root)!r} is no folder")
    tasks = []
    for task in _chosen(name, list(table["tasks"]), only):
        entry: dict[str, Any] = dict(table["tasks"][task])
        stems: Mapping[str, str] = entry.pop("splits", {})
        files = {s: _find(folder, name, task, stems.get(s, s)) for s in SPLITS}
        found: dict[str, Path] = {s: f for s, f in files.items() if f is not None}
        if found or only is not None:
            if "train" not in found:
                tried = " or ".join(str(folder / p / task) for p in (name, "."))
                raise WeftError(f"suite {name!r}: task {task!r} has no train file in {tried}")
            tasks.append(Task(name=task, files=found, **entry))
    if not tasks:
        raise WeftError(f"suite {name!r}: no task has files in {str(folder / name)!r} or {str(folder)!r}")
    return tasks


def suite_blocks() -> dict[str, dict[str, list[str]]]:
    """For each suite that has them, its tasks in blocks of one kind, by the blocks' names."""
    tables = {name: _table(name) for name in suite_names() if name != SYNTHETIC}
    return {name: table["blocks"] for name, table in tables.items() if "blocks" in table}


def _table(suite: str) -> dict[str, Any]:
    text = (resources.files(__name__) / f"{suite}.yaml").read_text(encoding="utf-8")
    table: dict[str, Any] = yaml.safe_load(text)
    return table


def _chosen(suite: str, names: list[str], only: Sequence[str] | None) -> list[str]:
    for task in only or ():
        if task not in names:
            raise WeftError(f"suite {suite!r} has no task {task!r}; {did_you_mean(task, names)}")
    return names if only is None else list(only)


def _find(root: Path, suite: str, task: str, stem: str) -> Path | None:
    for folder in (root / suite / task, root / task):
        for suffix in SUFFIXES:
            if (file := folder / f"{stem}{suffix}").is_file():
                return file
    return None


def _swatch_names() -> list[str]:
    from weft.tasks.suites import swatch

    return list(swatch.SWATCH)


def _swatch(name: str) -> Task:
    from weft.tasks.suites import swatch

    facts = swatch.SWATCH[name]
    return Task(
        name=name,
        kind=facts.kind,
        labels=tuple(facts.labels),
        range=facts.range,
        texts=tuple(facts.texts),
        label=facts.label,
        metrics=tuple(facts.metrics),
        files={split: swatch.generate(name, split) for split in swatch.SPLITS},
        suite=SYNTHETIC,
    )
