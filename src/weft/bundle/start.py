"""Beginning a run from the weights of a bundle: more tasks, fewer, or one alone after many.

With the method of the bundle, everything goes over that both have. With another method it is the encoder, as
the bundle's run trained it, and the heads of the tasks that both have: tasks trained together (`full`), then
each by itself (`separate`, or `full` with one task).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open

from weft.bundle.load import copy_in, find_bundle, read_manifest, read_tasks
from weft.bundle.padding import fill, ranked_parameters
from weft.bundle.save import SHARED_FILE, in_files, task_file
from weft.core.stacked import ENCODER
from weft.errors import WeftError
from weft.methods import build_method
from weft.model.ownership import Owned, owned
from weft.tasks.task import IDENTITY, Task

if TYPE_CHECKING:
    from weft.model.model import Model


@torch.no_grad()
def start_from(model: Model, folder: str | Path) -> list[str]:
    """Give a fresh model the weights of a bundle: shared ones, and those of the tasks that both have.

    Args:
        model: of the same encoder and pool; tasks that the bundle lacks keep their own start.
        folder: the bundle, or a run's folder that holds one.

    Returns:
        What starts anew, in sentences.
    """
    folder = find_bundle(folder)
    said = read_manifest(folder)
    if said["encoder"]["sha256"] != model.encoder_source.sha256:
        raise WeftError(
            f"start: {folder} stands on another encoder, {said['encoder']['name']!r}; "
            f"expected the weights of {model.encoder_source.name!r}"
        )
    if said["heads"]["pool"] != model.pool:
        raise WeftError(
            f"start: the heads of {folder} read {said['heads']['pool']!r}; here they read {model.pool!r}: "
            f"set heads.pool={said['heads']['pool']}"
        )
    tasks = read_tasks(folder, said, model.encoder_source.sha256)
    _check_tasks(model, tasks, folder)
    notes = [f"{folder} has no task {t.name!r}: it starts anew" for t in model.tasks if t.name not in tasks]
    try:
        if build_method(said["method"]).settings() == model.method.settings():
            _same_method(model, folder, tasks)
        else:
            notes.append(_other_method(model, folder, said, tasks))
    except SafetensorError as wrong:
        raise WeftError(f"start: a file of {folder} is no file of a bundle: {wrong}") from None
    return notes


def _check_tasks(model: Model, tasks: Mapping[str, Task], folder: Path) -> None:
    """A task that both have must be the same one."""
    for task in model.tasks:
        for name in IDENTITY if task.name in tasks else ():
            old, new = getattr(tasks[task.name], name), getattr(task, name)
            if old != new:
                raise WeftError(
                    f"start: {name} of task {task.name!r} is {old!r} in {folder}, and {new!r} here; "
                    "give it the same, or another name"
                )


def _same_method(model: Model, folder: Path, tasks: Mapping[str, Task]) -> None:
    by_file: dict[Path, list[Owned]] = {}
    for item in owned(model):
        kind, _, name = item.owner.partition(":")
        if in_files(item) and (kind != "task" or name in tasks):
            path = task_file(folder, name) if kind == "task" else folder / SHARED_FILE
            by_file.setdefault(path, []).append(item)
    ranked = ranked_parameters(model)
    for path, items in by_file.items():
        with safe_open(path, "pt") as file:
            for item in items:
                copy_in(item, file, path, ranked)


def _other_method(model: Model, folder: Path, said: Mapping[str, Any], tasks: Mapping[str, Task]) -> str:
    """Take the encoder that the bundle's run trained, and the heads; says what it did."""
    found, mine = build_method(said["method"]), model.method
    methods = f"  found    {found.settings()}\n  expected {mine.settings()}"
    with safe_open(folder / SHARED_FILE, "pt") as file:
        trained = {name for name in file.keys() if name.startswith("encoder.")}  # noqa: SIM118
        if not trained:
            raise WeftError(
                f"start: {folder} is of another method, which leaves the encoder as it is or has one a task: "
                f"there is nothing to begin from.\n{methods}\n  give the run file the method that was found"
            )
        taken: set[str] = set()
        for item in owned(model):
            name = f"encoder.{_in_encoder(item)}"
            if item.part != "encoder" or name not in trained:
                continue
            if not in_files(item):
                raise WeftError(
                    f"start: the run of {folder} trained the encoder, and method {mine.name!r} keeps it as "
                    f"{model.encoder_source.name!r} has it ({item.name}, for one), so that a bundle could "
                    f"not hold it.\n{methods}\n  write it as an encoder of its own, in Python: "
                    f"weft.load({str(folder)!r}).merge({next(iter(tasks))!r}).save_pretrained('trained'), "
                    "and begin with encoder: trained"
                )
            _fill(item, file.get_tensor(name), folder / SHARED_FILE, name)
            taken.add(name)
    heads = 0
    for task in model.tasks:
        if task.name in tasks:
            heads += _take_head(model, task.name, task_file(folder, task.name))
    return (
        f"{folder} is of method {found.name!r}, here it is {mine.name!r}: taken are {len(taken)} tensors of "
        f"the encoder as trained there, and the heads of {heads} tasks; all else starts anew"
    )


def _take_head(model: Model, task: str, path: Path) -> bool:
    """Copy a task's head, if the file has all of it."""
    items = [i for i in owned(model) if i.part == "heads" and i.owner == f"task:{task}"]
    with safe_open(path, "pt") as file:
        stored = set(file.keys())
        if not items or not all(item.name in stored for item in items):
            return False
        for item in items:
            _fill(item, file.get_tensor(item.name), path, item.name)
    return True


def _in_encoder(item: Owned) -> str:
    """A parameter's name within its encoder, be it shared or one task's own."""
    prefix = "encoder." if item.owner == ENCODER else f"encoder.{item.owner}."
    return item.name.removeprefix(prefix)


def _fill(item: Owned, tensor: torch.Tensor, path: Path, name: str) -> None:
    if tensor.shape != item.data.shape:
        expected, found = list(item.data.shape), list(tensor.shape)
        raise WeftError(f"start: {path}: {name!r} has shape {found}; expected {expected}")
    fill(item, tensor)
