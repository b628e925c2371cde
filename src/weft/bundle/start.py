"""Beginning a run from the weights of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import safe_open

from weft.bundle.load import find_bundle, read_manifest
from weft.bundle.save import SHARED_FILE, in_files, key, task_file
from weft.errors import WeftError
from weft.ownership import owned

if TYPE_CHECKING:
    from weft.model import Model


@torch.no_grad()
def start_from(model: Model, folder: str | Path) -> list[str]:
    """Give a fresh model the weights of a bundle: shared ones, and those of the tasks that both have.

    Args:
        model: of the same encoder and method; tasks that the bundle lacks keep their own start.
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
    if said["method"] != model.method.settings():
        raise WeftError(
            f"start: {folder} is of another method.\n"
            f"  found    {said['method']}\n  expected {model.method.settings()}"
        )
    fresh = [task.name for task in model.tasks if task.name not in said["tasks"]]
    for item in owned(model):
        kind, _, name = item.owner.partition(":")
        if not in_files(item) or (kind == "task" and name in fresh):
            continue
        path = task_file(folder, name) if kind == "task" else folder / SHARED_FILE
        with safe_open(path, "pt") as file:
            if key(item) not in file.keys():  # noqa: SIM118  (a safetensors file is no dict)
                raise WeftError(f"start: {path} lacks {key(item)!r}; its task {name!r} is of another shape")
            tensor = file.get_tensor(key(item))
        if tensor.shape != item.data.shape:
            found, expected = list(tensor.shape), list(item.data.shape)
            raise WeftError(f"start: {path}: {key(item)!r} has shape {found}; expected {expected}")
        item.data.copy_(tensor)
    return fresh
