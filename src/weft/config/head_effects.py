"""Finds settings of heads that would have no effect; each message says what to do instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from weft.config.reading import Reading
from weft.model.head_settings import HeadSettings
from weft.tasks.kinds import KINDS
from weft.tasks.task import Task


def without_effect(task: Task, written: Mapping[str, Any], heads: HeadSettings) -> list[tuple[str, str]]:
    """The settings that were written for a task's head and that its head does not have.

    Args:
        task: the task, with these settings.
        written: the settings that were written for it; keys that are not of heads are ignored.
        heads: the `heads` section.

    Returns:
        The key and the reason of each.
    """
    reads = reads_of(task)
    reasons: dict[str, str] = {}
    if reads == "cosine":
        no_head = f"{task.name} compares by the cosine and has no head: leave it out, or set compare: head"
        reasons = dict.fromkeys(("layers", "hidden"), no_head)
        if written.get("pool") == "task_pooler":
            reasons["pool"] = f"{no_head}; the cosine reads cls, mean or pooler"
    elif reads == "tokens":
        reasons["pool"] = f"heads of kind {task.kind}, as that of {task.name}, read every token: leave it out"
    if reads != "cosine" and (task.layers or heads.layers) == 1:
        reasons["hidden"] = f"the head of {task.name} has one layer: leave it out, or set layers: 2"
    return [
        (key, f"{key}: {written[key]} has no effect: {why}")
        for key, why in reasons.items()
        if written.get(key) is not None
    ]


def written_keys(raw: Mapping[str, Any], reading: Reading) -> set[str]:
    """The keys of `heads` that the user has written, in the file or on the command line.

    Args:
        raw: the sections of the file, without those of its preset.
        reading: the state of reading it.
    """
    overridden = {place[1] for place in reading.overridden if len(place) > 1 and place[0] == "heads"}
    heads = raw.get("heads")
    return overridden | (set(heads) if isinstance(heads, dict) and not reading.generated else set())


def section_without_effect(
    heads: HeadSettings, written: Collection[str], tasks: Sequence[Task]
) -> list[tuple[str, str]]:
    """The settings of the `heads` section that no task uses; defaults are never reported.

    Args:
        heads: the section.
        written: its keys that were written.
        tasks: the tasks of the run; without any, nothing is reported.

    Returns:
        The key and the reason of each.
    """
    with_heads = [task for task in tasks if reads_of(task) != "cosine"]
    used = {
        "pool": any(task.pool is None and reads_of(task) != "tokens" for task in tasks),
        "layers": any(task.layers is None for task in with_heads),
        "hidden": any((task.layers or heads.layers) > 1 and task.hidden is None for task in with_heads),
        "dropout": bool(with_heads),
        "start": bool(with_heads),
    }
    reasons = {
        "pool": "each task has a pool of its own, or a head that reads every token",
        "layers": "each task has layers of its own, or no head",
        "hidden": "no head has several layers without a width of its own; set heads.layers=2 with it",
        "dropout": "no task has a head",
        "start": "no task has a head",
    }
    return [
        (key, f"{getattr(heads, key)} has no effect: {reasons[key]}; leave it out")
        for key in used
        if tasks and key in written and not used[key] and getattr(heads, key) != _default(key)
    ]


def reads_of(task: Task) -> str:
    """What the task's head reads, such as `pooled` or `tokens`; `cosine` if it has none."""
    return KINDS[task.kind]().reads_of(task)


def _default(key: str) -> object:
    return HeadSettings.model_fields[key].default
