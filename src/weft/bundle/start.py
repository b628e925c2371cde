"""Beginning a run from the weights of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open

from weft.bundle.load import copy_in, find_bundle, read_manifest, read_tasks
from weft.bundle.padding import ranked_parameters
from weft.bundle.save import SHARED_FILE, in_files, task_file
from weft.errors import WeftError
from weft.methods import build_method
from weft.ownership import Owned, owned
from weft.tasks.task import IDENTITY

if TYPE_CHECKING:
    from weft.model import Model


@torch.no_grad()
def start_from(model: Model, folder: str | Path) -> list[str]:
    """Give a fresh model the weights of a bundle: shared ones, and those of the tasks that both have.

    Args:
        model: of the same encoder, method and pool; tasks that the bundle lacks keep their own start.
        folder: the bundle, or a run's folder that holds one.

    Returns:
        The tasks that the bundle has nothing for.
    """
    folder = find_bundle(folder)
    said = read_manifest(folder)
    if said["encoder"]["sha256"] != model.source.sha256:
        raise WeftError(
            f"start: {folder} stands on another encoder, {said['encoder']['name']!r}; "
            f"expected the weights of {model.source.name!r}"
        )
    found, expected = build_method(said["method"]).settings(), model.method.settings()
    if found != expected:
        raise WeftError(
            f"start: {folder} is of another method.\n  found    {found}\n  expected {expected}\n"
            "  give the run file the method that was found"
        )
    if said["heads"]["pool"] != model.pool:
        raise WeftError(
            f"start: the heads of {folder} read {said['heads']['pool']!r}; here they read {model.pool!r}: "
            f"set heads.pool={said['heads']['pool']}"
        )
    tasks = read_tasks(folder, said, model.source.sha256)
    for task in model.tasks:
        for name in IDENTITY if task.name in tasks else ():
            old, new = getattr(tasks[task.name], name), getattr(task, name)
            if old != new:
                raise WeftError(
                    f"start: {name} of task {task.name!r} is {old!r} in {folder}, and {new!r} here; "
                    "give it the same, or another name"
                )
    by_file: dict[Path, list[Owned]] = {}
    for item in owned(model):
        kind, _, name = item.owner.partition(":")
        if in_files(item) and (kind != "task" or name in tasks):
            path = task_file(folder, name) if kind == "task" else folder / SHARED_FILE
            by_file.setdefault(path, []).append(item)
    ranked = ranked_parameters(model)
    for path, items in by_file.items():
        try:
            with safe_open(path, "pt") as file:
                for item in items:
                    copy_in(item, file, path, ranked)
        except SafetensorError as wrong:
            raise WeftError(f"start: {path} is no file of a bundle: {wrong}") from None
    return [task.name for task in model.tasks if task.name not in tasks]
