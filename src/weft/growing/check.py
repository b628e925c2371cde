"""Checking a task that is to be added to a bundle or retrained: all mistakes at once, without torch."""

from __future__ import annotations

from collections.abc import Mapping

from weft.errors import did_you_mean, words
from weft.growing.settings import SAME, GrowSettings
from weft.methods import Method
from weft.tasks.checks import STARTS
from weft.tasks.task import IDENTITY, OF_HEADS, Task

Mistake = tuple[tuple[str, ...], str]
"""The key, such as (grow, start), and what is wrong there."""


def mistakes(
    task: Task, grow: GrowSettings, bundle_tasks: Mapping[str, Task], method: Method
) -> list[Mistake]:
    """Return everything that prevents a task from being added.

    Args:
        task: the new task.
        grow: its `grow` settings.
        bundle_tasks: the bundle's tasks.
        method: the bundle's method.
    """
    wrong: list[Mistake] = []
    if task.name in bundle_tasks:
        wrong.append(
            (
                ("tasks", task.name),
                "the bundle has a task of this name; expected a new name: choose a different name, or "
                "retrain that task: "
                + words(
                    f"weft task retrain BUNDLE {task.name} TASK.yaml --out B2",
                    f"weft.retrain_task(BUNDLE, {task.name!r}, TASK, 'B2')",
                ),
            )
        )
    if task.name in STARTS:
        wrong.append(
            (("tasks", task.name), "this name is reserved as a value of grow.start; choose a different name")
        )
    if grow.start is not None and grow.start not in STARTS and grow.start not in bundle_tasks:
        wrong.append(
            (("grow", "start"), f"{grow.start!r}; {did_you_mean(grow.start, [*STARTS, *bundle_tasks])}")
        )
    if grow.start == "xavier" and not any(part.embeds for part in method.parts):
        wrong.append(
            (
                ("grow", "start"),
                f"'xavier' samples the vector of a task, and method {method.name!r} has no such vector; "
                "expected random, average or the name of a task",
            )
        )
    wrong += _train_encoder(grow, method)
    for source, labels in grow.label_map.items():
        wrong += _label_map(task, source, labels, bundle_tasks)
    return wrong


def mistakes_again(task: Task, grow: GrowSettings, bundle_task: Task) -> list[Mistake]:
    """Return everything that prevents a task of a bundle from being retrained.

    Args:
        task: the task of the task file.
        grow: its `grow` settings.
        bundle_task: the task of the bundle.
    """
    key_path = ("tasks", task.name)
    if task.name != bundle_task.name:
        return [(key_path, f"expected {bundle_task.name!r}, the task to retrain")]
    wrong: list[Mistake] = [
        (
            (*key_path, key),
            f"the bundle has {getattr(bundle_task, key)!r}, the task file has {getattr(task, key)!r}; "
            "expected the "
            "same: add a different task under a different name with weft task add",
        )
        for key in IDENTITY
        if getattr(bundle_task, key) != getattr(task, key)
    ]
    # a setting that the task file leaves out is kept
    wrong += [
        (
            (*key_path, key),
            f"the bundle's head has {getattr(bundle_task, key)!r}, the task file has "
            f"{getattr(task, key)!r}; leave it out",
        )
        for key in (*OF_HEADS, "rank_loss")
        if getattr(task, key) is not None and getattr(bundle_task, key) != getattr(task, key)
    ]
    if grow.train_encoder is not None:
        wrong.append(
            (
                ("grow", "train_encoder"),
                "this would change parameters that other tasks use; it applies to new tasks only: leave it "
                "out",
            )
        )
    if grow.only == "all":
        wrong.append(
            (
                ("grow", "only"),
                "'all' would change parameters that other tasks use; expected task or head: to train all "
                "tasks "
                "together: weft train RUN.yaml, with start: BUNDLE in it",
            )
        )
    return wrong


def _train_encoder(grow: GrowSettings, method: Method) -> list[Mistake]:
    if grow.train_encoder is None:
        return []
    key_path = ("grow", "train_encoder")
    if method.separate:
        text = f"method {method.name!r} gives each task an encoder of its own; leave it out"
        return [(key_path, text)]
    if grow.only != "all":
        text = (
            f"{grow.train_encoder!r}, but grow.only is {grow.only!r}, which trains nothing that tasks share; "
            "expected only: all, or leave train_encoder out"
        )
        return [(key_path, text)]
    return []


def fits_head(task: Task, source: Task) -> bool:
    """Whether the heads of two tasks differ at most in the number of labels."""
    return all(getattr(task, key) == getattr(source, key) for key in ("kind", "apart", *OF_HEADS))


def unused_again(grow: GrowSettings) -> list[str]:
    """The keys of `grow` that are set and that only apply to new tasks."""
    new_only = ("start", "label_map", "head_start", "zero_shot_rows")
    return [key for key in new_only if key in grow.model_fields_set]


def _label_map(
    task: Task, source: str, labels: str | Mapping[str, str], bundle_tasks: Mapping[str, Task]
) -> list[Mistake]:
    key_path = ("grow", "label_map", source)
    if source in STARTS:
        return [
            (
                key_path,
                "this name is reserved as a value of grow.start: a task of this name cannot have a label map",
            )
        ]
    if source not in bundle_tasks:
        return [(key_path, f"the bundle has no task {source!r}; {did_you_mean(source, bundle_tasks)}")]
    source_task = bundle_tasks[source]
    if labels == SAME:
        if source_task.head == task.head:
            return []
        return [
            (
                key_path,
                f"same: the head of {source!r} is {source_task.head}, that of {task.name!r} is {task.head}",
            )
        ]
    assert isinstance(labels, Mapping)
    if task.labels and source_task.labels and not fits_head(task, source_task):
        heads = f"the head of {source!r} is {source_task.head}, that of {task.name!r} is {task.head}"
        return [(key_path, f"{heads}; expected heads that differ only in their labels")]
    if not (task.labels and source_task.labels):
        without = source if task.labels else task.name
        return [(key_path, f"task {without!r} has no labels to map; expected 'same', if the heads fit")]
    wrong: list[Mistake] = [
        ((*key_path, new), f"task {task.name!r} has no label {new!r}; {did_you_mean(new, task.labels)}")
        for new in labels
        if new not in task.labels
    ]
    wrong += [
        ((*key_path, new), f"task {source!r} has no label {old!r}; {did_you_mean(old, source_task.labels)}")
        for new, old in labels.items()
        if old not in source_task.labels
    ]
    if missing := [label for label in task.labels if label not in labels]:
        wrong.append((key_path, f"{', '.join(map(repr, missing))} is missing; expected every new label"))
    return wrong
