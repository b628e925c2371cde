"""What may be wrong with a task that is to join a bundle, or to be trained again: all at once, no torch."""

from __future__ import annotations

from collections.abc import Mapping

from weft.errors import did_you_mean
from weft.growing.settings import SAME, GrowSettings
from weft.methods import Method
from weft.tasks.checks import STARTS
from weft.tasks.task import IDENTITY, OF_HEADS, Task

Mistake = tuple[tuple[str, ...], str]
"""The place, such as (grow, start), and what is wrong there."""


def mistakes(task: Task, grow: GrowSettings, known: Mapping[str, Task], method: Method) -> list[Mistake]:
    """Everything that keeps a task from joining.

    Args:
        task: the new task.
        grow: how it is to join.
        known: the bundle's tasks.
        method: the bundle's method.
    """
    found: list[Mistake] = []
    if task.name in known:
        found.append(
            (
                ("tasks", task.name),
                "the bundle has a task of this name; expected a new one: give it another name, or train that "
                f"one again: weft task retrain BUNDLE {task.name} TASK.yaml --out B2",
            )
        )
    if task.name in STARTS:
        found.append((("tasks", task.name), "as a start this name means something else; give it another"))
    if grow.start is not None and grow.start not in STARTS and grow.start not in known:
        found.append((("grow", "start"), f"{grow.start!r}; {did_you_mean(grow.start, [*STARTS, *known])}"))
    if grow.start == "xavier" and not any(part.embeds for part in method.parts):
        found.append(
            (
                ("grow", "start"),
                f"'xavier' draws a task's vector, and method {method.name!r} has none; "
                "expected random, average or the name of a task",
            )
        )
    for source, labels in grow.label_map.items():
        found += _label_map(task, source, labels, known)
    return found


def mistakes_again(task: Task, grow: GrowSettings, mine: Task) -> list[Mistake]:
    """Everything that keeps a task of a bundle from being trained again.

    Args:
        task: the task as it is given now.
        grow: how it is to be trained.
        mine: the bundle's own.
    """
    place = ("tasks", task.name)
    if task.name != mine.name:
        return [(place, f"expected {mine.name!r}, the task that is to be trained again")]
    found: list[Mistake] = [
        (
            (*place, key),
            f"the bundle has {getattr(mine, key)!r}, here it is {getattr(task, key)!r}; expected the same: "
            "another task has another name, and comes in by weft task add",
        )
        for key in IDENTITY
        if getattr(mine, key) != getattr(task, key)
    ]
    # what the task does not say stays as it is
    found += [
        (
            (*place, key),
            f"the bundle's head has {getattr(mine, key)!r}, here it is {getattr(task, key)!r}; leave it out",
        )
        for key in (*OF_HEADS, "rank_loss")
        if getattr(task, key) is not None and getattr(mine, key) != getattr(task, key)
    ]
    if grow.only == "all":
        found.append(
            (
                ("grow", "only"),
                "'all' would move what other tasks use; expected task or head: all tasks together by "
                "weft train RUN.yaml with start: BUNDLE in it",
            )
        )
    return found


def fits_head(task: Task, theirs: Task) -> bool:
    """Whether the heads of two tasks are of one form but for the number of labels."""
    return all(getattr(task, key) == getattr(theirs, key) for key in ("kind", "apart", *OF_HEADS))


def unused_again(grow: GrowSettings) -> list[str]:
    """The keys of `grow` that were given and are for new tasks alone."""
    return [key for key in ("start", "label_map", "zero_shot_rows") if key in grow.model_fields_set]


def _label_map(
    task: Task, source: str, labels: str | Mapping[str, str], known: Mapping[str, Task]
) -> list[Mistake]:
    place = ("grow", "label_map", source)
    if source in STARTS:
        return [(place, "as a start this name means something else: a task of this name has no label map")]
    if source not in known:
        return [(place, f"the bundle has no task {source!r}; {did_you_mean(source, known)}")]
    theirs = known[source]
    if labels == SAME:
        if theirs.head == task.head:
            return []
        return [
            (place, f"same: the head of {source!r} is {theirs.head}, that of {task.name!r} is {task.head}")
        ]
    assert isinstance(labels, Mapping)
    if task.labels and theirs.labels and not fits_head(task, theirs):
        told = f"the head of {source!r} is {theirs.head}, that of {task.name!r} is {task.head}"
        return [(place, f"{told}; expected heads that differ in nothing but their labels")]
    if not (task.labels and theirs.labels):
        without = source if task.labels else task.name
        return [(place, f"task {without!r} has no labels to map; expected 'same', where the heads fit")]
    found: list[Mistake] = [
        ((*place, new), f"task {task.name!r} has no label {new!r}; {did_you_mean(new, task.labels)}")
        for new in labels
        if new not in task.labels
    ]
    found += [
        ((*place, new), f"task {source!r} has no label {old!r}; {did_you_mean(old, theirs.labels)}")
        for new, old in labels.items()
        if old not in theirs.labels
    ]
    if missing := [label for label in task.labels if label not in labels]:
        found.append((place, f"says nothing of {', '.join(map(repr, missing))}; expected every new label"))
    return found
