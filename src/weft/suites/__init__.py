"""Built-in suites: collections of tasks that are loaded by one name."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.errors import WeftError, did_you_mean
from weft.suites.forms import FORM_KEYS, Form, best_form, hub_form, looked_in
from weft.suites.overlaps import overlaps, without_twins
from weft.suites.tables import read_yaml, table_names
from weft.tasks.task import SYNTHETIC, Task

ON_THE_HUB = "hub"
"""The value of `root` that reads the data from the Hugging Face hub."""

__all__ = [
    "ON_THE_HUB",
    "SYNTHETIC",
    "SuiteTasks",
    "find_suite",
    "load_suite",
    "overlaps",
    "suite_blocks",
    "suite_names",
    "suite_tasks",
    "suites_found_once",
    "with_head",
    "without_twins",
]


@dataclass(frozen=True)
class SuiteTasks:
    """The tasks of a suite whose files exist.

    Attributes:
        tasks: the tasks.
        notes: one sentence per missing task, split or further set.
    """

    tasks: list[Task]
    notes: list[str] = field(default_factory=list)


Key = tuple[str, str | None, tuple[str, ...] | None]
_found: ContextVar[dict[Key, SuiteTasks] | None] = ContextVar("found", default=None)
"""The suites that have been found inside `suites_found_once`."""


def suite_names() -> list[str]:
    """Return the names of all suites."""
    return sorted([*table_names(), SYNTHETIC])


def suite_tasks(name: str) -> list[str]:
    """Return the names of all tasks of a suite, whether their files exist or not."""
    return _swatch_names() if name == SYNTHETIC else list(_table(name)["tasks"])


def load_suite(name: str, root: str | Path | None = None, only: Sequence[str] | None = None) -> list[Task]:
    """Return the tasks of a suite, with their files; see `find_suite`."""
    return find_suite(name, root, only).tasks


def find_suite(name: str, root: str | Path | None = None, only: Sequence[str] | None = None) -> SuiteTasks:
    """Return the tasks of a suite, with their files, and notes about what is missing.

    Args:
        name: one of `suite_names()`.
        root: the folder that holds the data, with the hub's names (ROOT/SUITE/TASK/train.parquet or
            ROOT/TASK/train.parquet; also jsonl, tsv, csv) or as officially downloaded, such as
            ROOT/glue/CoLA/train.tsv. `hub` reads from the hub, as does None if the package datasets is
            installed. `swatch` needs no root.
        only: the tasks to load, all of which must exist; by default all tasks that exist.
    """
    found = _found.get()
    if found is None:
        return _find_suite(name, root, only)
    key = (name, None if root is None else str(root), None if only is None else tuple(only))
    if key not in found:
        found[key] = _find_suite(name, root, only)
    return SuiteTasks(list(found[key].tasks), list(found[key].notes))


@contextmanager
def suites_found_once() -> Iterator[None]:
    """Inside, the files of a suite are looked for once: a grid of a hundred runs has the same suites."""
    token = _found.set({})
    try:
        yield
    finally:
        _found.reset(token)


def _find_suite(name: str, root: str | Path | None, only: Sequence[str] | None) -> SuiteTasks:
    if name not in suite_names():
        raise WeftError(f"suite {name!r} does not exist; {did_you_mean(name, suite_names())}")
    if name == SYNTHETIC:
        return SuiteTasks([_swatch(task) for task in _chosen(name, _swatch_names(), only)])
    table = _table(name)
    names = _chosen(name, list(table["tasks"]), only)
    if root is None and importlib.util.find_spec("datasets") is None:
        raise WeftError(
            f"suite {name!r} needs 'root', the folder that holds its data; "
            "to read it from the hub instead, type: pip install datasets"
        )
    if root is None or str(root) == ON_THE_HUB:
        return _on_the_hub(name, table, names, only)
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise WeftError(
            f"suite {name!r}: root {str(root)!r} is not a folder; set the folder that holds the data, such "
            "as tasks.root=DATA, or tasks.root=hub to download it"
        )
    forms = {task: best_form(name, table, task, folder) for task in names}
    for task, form in forms.items():
        if form is None and (only is not None or not any(forms.values())):
            paths = " or ".join(str(path) for path in looked_in(name, table, task, folder))
            if only is None and len(names) > 1:
                raise WeftError(
                    f"suite {name!r}: no task has files in {str(folder / name)!r} or {str(folder)!r}; "
                    f"expected, for example, {paths}"
                )
            raise WeftError(
                f"suite {name!r}: task {task!r} has no train file in {str(folder)!r}; expected {paths}"
            )
    present = {task: form for task, form in forms.items() if form is not None}
    notes = _notes(name, table, {task: form.missing for task, form in present.items()})
    if missing := [task for task, form in forms.items() if form is None]:
        notes.insert(0, f"suite {name}: no train file of {', '.join(missing)} in {str(folder)!r}: left out")
    return SuiteTasks([_task(name, table, task, form) for task, form in present.items()], notes)


def suite_blocks() -> dict[str, dict[str, list[str]]]:
    """Return the blocks of similar tasks of each suite that defines some, by suite and block name."""
    tables = {name: _table(name) for name in table_names()}
    return {name: table["blocks"] for name, table in tables.items() if "blocks" in table}


def with_head(suite: str, task: str) -> dict[str, Any]:
    """Return what `compare: head` sets for a task of the suite, such as the layers of its head."""
    if suite not in table_names():
        return {}
    settings: dict[str, Any] = _table(suite)["tasks"].get(task, {}).get("with_head", {})
    return settings


def _table(suite: str) -> dict[str, Any]:
    return read_yaml(suite)


def _chosen(suite: str, names: list[str], only: Sequence[str] | None) -> list[str]:
    for task in only or ():
        if task not in names:
            raise WeftError(f"suite {suite!r} has no task {task!r}; {did_you_mean(task, names)}")
    return names if only is None else list(dict.fromkeys(only))


def _on_the_hub(name: str, table: dict[str, Any], names: list[str], only: Sequence[str] | None) -> SuiteTasks:
    forms = {task: hub_form(table["tasks"][task]) for task in names}
    absent = [task for task, form in forms.items() if form is None]
    if absent and (only is not None or len(absent) == len(forms)):
        raise WeftError(
            f"suite {name!r}: {', '.join(absent)} is not on the hub; set 'root' to a folder with its files"
        )
    return SuiteTasks([_task(name, table, task, form) for task, form in forms.items() if form is not None])


def _task(suite: str, table: dict[str, Any], name: str, form: Form) -> Task:
    settings = {key: value for key, value in table["tasks"][name].items() if key not in FORM_KEYS}
    if "validation" in form.files:
        settings.pop("cut", None)
    return Task(name=name, files=form.files, also=form.also, suite=suite, **settings)


def _notes(suite: str, table: dict[str, Any], missing: dict[str, list[str]]) -> list[str]:
    """One note per split or further set that existing tasks lack."""
    notes = []
    for split_or_set in dict.fromkeys(split_or_set for names in missing.values() for split_or_set in names):
        tasks = [task for task, names in missing.items() if split_or_set in names]
        cut = [task for task in tasks if split_or_set == "validation" and "cut" in table["tasks"][task]]
        for task in cut:
            share = table["tasks"][task]["cut"]
            notes.append(
                f"suite {suite}: {task} has no validation file: {share:.0%} of its train rows are used"
            )
        if rest := [task for task in tasks if task not in cut]:
            notes.append(f"suite {suite}: no {split_or_set} file of {', '.join(rest)}")
    return notes


def _swatch_names() -> list[str]:
    from weft.suites import swatch

    return list(swatch.SWATCH)


def _swatch(name: str) -> Task:
    from weft.suites import swatch

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
