"""Tasks of different suites that share texts, or are one and the same."""

from __future__ import annotations

from collections.abc import Sequence

from weft.suites.tables import read_yaml
from weft.tasks.task import Task


def overlaps(tasks: Sequence[Task]) -> list[str]:
    """A warning for each pair of tasks of which one must not be trained on and the other tested on."""
    there = {_key(task) for task in tasks}
    return [
        f"{_told(one)} and {_told(other)}: never train on one and test on the other: {pair['why']}"
        for pair in read_yaml("overlaps")["overlaps"]
        for one, other in [pair["tasks"]]
        if one in there and other in there
    ]


def without_twins(tasks: Sequence[Task]) -> tuple[list[Task], list[str]]:
    """The tasks without those that another suite gives too, and a note on each that is left out."""
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
            notes.append(f"{_told(key)} is left out: it is {_told(_key(first))}, which is there already")
    return kept, notes


def _key(task: Task) -> str:
    """SUITE/TASK; a task of no suite shares nothing that is known."""
    return f"{task.suite}/{task.name}"


def _told(key: str) -> str:
    suite, _, name = key.partition("/")
    return name if suite == name else key
