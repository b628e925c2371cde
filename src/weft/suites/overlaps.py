"""Tasks of different suites that share texts or are identical."""

from __future__ import annotations

from collections.abc import Sequence

from weft.suites.tables import read_yaml
from weft.tasks.task import Task


def overlaps(tasks: Sequence[Task]) -> list[str]:
    """Return one warning per pair of tasks that must not be split between training and testing."""
    keys = {_key(task) for task in tasks}
    return [
        f"{_shown(first)} and {_shown(second)}: never train on one and test on the other: {pair['why']}"
        for pair in read_yaml("overlaps")["overlaps"]
        for first, second in [pair["tasks"]]
        if first in keys and second in keys
    ]


def without_twins(tasks: Sequence[Task]) -> tuple[list[Task], list[str]]:
    """Remove tasks that another suite contains too; return the rest and one note per removed task."""
    same = [set(twins) for twins in read_yaml("overlaps")["same"]]
    kept: list[Task] = []
    notes: list[str] = []
    for task in tasks:
        key = _key(task)
        twins = {twin for group in same if key in group for twin in group} - {key}
        first = next((other for other in kept if _key(other) in twins), None)
        if first is None:
            kept.append(task)
        else:
            notes.append(f"{_shown(key)} is left out: it is identical to {_shown(_key(first))}")
    return kept, notes


def _key(task: Task) -> str:
    """SUITE/TASK; for a task without a suite no overlaps are known."""
    return f"{task.suite}/{task.name}"


def _shown(key: str) -> str:
    suite, _, name = key.partition("/")
    return name if suite == name else key
