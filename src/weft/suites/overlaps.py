"""Tasks of different suites that share texts or are identical."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

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


def twin_name(suite: str, task: str) -> str:
    """The name of a task that is kept although another suite has it too: `superglue_rte`."""
    return f"{suite}_{task}"


def without_twins(tasks: Sequence[Task], keep: Collection[str] = ()) -> tuple[list[Task], list[str]]:
    """Remove or rename tasks that an earlier suite contains too.

    Args:
        tasks: the tasks of all suites.
        keep: the suites whose tasks are kept (`twins: true`). They get the name `SUITE_TASK`, because two
            tasks of a run cannot have one name.

    Returns:
        The tasks, and one note for each that was removed or renamed.
    """
    same = [set(twins) for twins in read_yaml("overlaps")["same"]]
    kept: list[Task] = []
    notes: list[str] = []
    keys: list[str] = []
    for task in tasks:
        key = _key(task)
        twins = {twin for group in same if key in group for twin in group} - {key}
        first = next((other for other in keys if other in twins), None)
        keys.append(key)
        if first is None:
            kept.append(task)
        elif task.suite is not None and task.suite in keep:
            renamed = replace(task, name=twin_name(task.suite, task.name))
            kept.append(renamed)
            notes.append(
                f"{_shown(key)} has the same rows as {_shown(first)}: it is kept as {renamed.name!r}, "
                "because twins are requested"
            )
        else:
            notes.append(
                f"{_shown(key)} is left out: it is identical to {_shown(first)}; to keep both, set "
                f"twins: true for the suite {task.suite}"
            )
    return kept, notes


def _key(task: Task) -> str:
    """SUITE/TASK; for a task without a suite no overlaps are known."""
    return f"{task.suite}/{task.name}"


def _shown(key: str) -> str:
    suite, _, name = key.partition("/")
    return name if suite == name else key
