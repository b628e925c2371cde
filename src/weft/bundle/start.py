"""Starting a run from the weights of a bundle, with more tasks, with fewer, or with one.

With the bundle's method, all weights that both models have are copied. Methods that differ only in which
encoder parameters train (`train_encoder`) count as the same. With a different method, the trained encoder and
the heads of the tasks that both have are copied: for example after training tasks together
(`full`), each is trained alone (`separate`, or `full` with one task).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from weft.bundle.consistent import consistently
from weft.bundle.load import OpenFiles, check_dtype, check_tensor, copy_in, open_files
from weft.bundle.manifest import SHARED_FILE, find_bundle, read_manifest, read_tasks, task_file
from weft.bundle.padding import fill, ranked_parameters
from weft.bundle.save import in_files
from weft.core.stacked import ENCODER
from weft.errors import WeftError
from weft.methods import Method, build_method
from weft.methods.what_trains import differ_only_in_training
from weft.model.ownership import Owned, owned
from weft.tasks.task import IDENTITY, Task

if TYPE_CHECKING:
    from weft.model.model import Model


@torch.no_grad()
def start_from(model: Model, folder: str | Path) -> list[str]:
    """Copy the weights of a bundle into a new model: shared weights, and those of the tasks that both have.

    Args:
        model: a model with the same encoder and pool; tasks that the bundle lacks keep their initial values.
        folder: the bundle, or a run folder that holds one.

    Returns:
        One sentence for each part that keeps its initial values.
    """
    folder = find_bundle(folder)
    with ExitStack() as stack:

        def read() -> tuple[dict[str, Any], dict[str, Task], OpenFiles]:
            manifest = read_manifest(folder)
            _check_encoder(model, manifest, folder)
            tasks = read_tasks(folder, manifest, manifest["encoder"]["sha256"])
            return manifest, tasks, open_files(folder, tasks, stack)

        manifest, tasks, files = consistently(folder, read)
        _check_tasks(model, tasks, folder)
        notes = [
            f"{folder} has no task {t.name!r}: it starts from initial values"
            for t in model.tasks
            if t.name not in tasks
        ]
        method = build_method(manifest["method"])
        if differ_only_in_training(method, model.method):
            notes += _same_method(model, folder, files, tasks, method)
        else:
            notes.append(_different_method(model, folder, files, manifest, tasks))
    return notes


def _check_encoder(model: Model, manifest: Mapping[str, Any], folder: Path) -> None:
    """Refuse a bundle with a different encoder, or whose heads read something else."""
    # the included copy is a file of its own: transformers may have named its tensors in another way
    if model.encoder_source.sha256 not in (manifest["encoder"]["sha256"], manifest["encoder"]["included"]):
        raise WeftError(
            f"start: {folder} needs a different encoder, {manifest['encoder']['name']!r}; "
            f"expected the weights of {model.encoder_source.name!r}"
        )
    if manifest["heads"]["pool"] != model.pool:
        raise WeftError(
            f"start: the heads of {folder} read {manifest['heads']['pool']!r}; here they read "
            f"{model.pool!r}: "
            f"set heads.pool={manifest['heads']['pool']}"
        )


def _check_tasks(model: Model, tasks: Mapping[str, Task], folder: Path) -> None:
    """Refuse a task that has the same name in both, but different settings."""
    for task in model.tasks:
        for name in IDENTITY if task.name in tasks else ():
            old, new = getattr(tasks[task.name], name), getattr(task, name)
            if old != new:
                raise WeftError(
                    f"start: {name} of task {task.name!r} is {old!r} in {folder}, and {new!r} here; "
                    "use the same value, or a different task name"
                )


def _same_method(
    model: Model, folder: Path, files: OpenFiles, tasks: Mapping[str, Task], method: Method
) -> list[str]:
    """Copy all weights that both have; the two methods may train different parts of the encoder.

    Returns:
        A note if encoder parameters train here that the bundle's run kept frozen.
    """
    by_file: dict[Path, list[Owned]] = {}
    encoder: list[Owned] = []
    for item in owned(model):
        kind, _, name = item.owner.partition(":")
        if item.owner == ENCODER:
            encoder.append(item)
        elif in_files(item) and (kind != "task" or name in tasks):
            path = task_file(folder, name) if kind == "task" else folder / SHARED_FILE
            by_file.setdefault(path, []).append(item)
    ranked = ranked_parameters(model)
    shared = folder / SHARED_FILE
    stored = set(files[shared].keys())
    trained = [item for item in encoder if item.name in stored]
    if lost := [item for item in trained if not item.trains]:
        instead = f"set method.train_encoder={_choices(method)}"
        if not model.placements:  # no adapters: the encoder alone is the model
            instead += f", or {_as_encoder(folder, tasks)}"
        raise WeftError(
            f"start: the run of {folder} trained {len(lost)} encoder parameters (train_encoder: "
            f"{_choices(method)}) that are frozen here (train_encoder: {_choices(model.method)}), such "
            f"as {lost[0].name}, so that a bundle could not hold them; expected a choice that contains "
            f"what was trained: {instead}"
        )
    for item in trained:
        copy_in(item, files[shared], shared, ranked)
    for path, items in by_file.items():
        for item in items:
            copy_in(item, files[path], path, ranked)
    begin = [item for item in encoder if item.trains and item.name not in stored]
    if not begin:
        return []
    return [
        f"{folder} kept {len(begin)} encoder parameters frozen that train here (train_encoder: "
        f"{_choices(method)} there, {_choices(model.method)} here): they start from the weights of "
        f"{model.encoder_source.name!r}"
    ]


def _as_encoder(folder: Path, tasks: Mapping[str, Task]) -> str:
    """How to start from the trained encoder of a bundle without training it further."""
    return (
        "write it as a separate encoder, in Python: "
        f"weft.load({str(folder)!r}).merge({next(iter(tasks))!r}).save_pretrained('trained'), "
        "and start with encoder: trained"
    )


def _choices(method: Method) -> str:
    """The `train_encoder` of a method, as in a run file."""
    return ", ".join(dict.fromkeys(repr(part.train_encoder) for part in method.parts))


def _different_method(
    model: Model,
    folder: Path,
    files: OpenFiles,
    manifest: Mapping[str, Any],
    tasks: Mapping[str, Task],
) -> str:
    """Copy the encoder that the bundle's run trained, and the heads; return a note on what was copied."""
    method, new_method = build_method(manifest["method"]), model.method
    methods = f"  found    {method.settings()}\n  expected {new_method.settings()}"
    file = files[folder / SHARED_FILE]
    trained = {name for name in file.keys() if name.startswith("encoder.")}  # noqa: SIM118
    if not trained:
        raise WeftError(
            f"start: {folder} has a different method, which does not train the encoder or has one "
            "encoder per "
            f"task: there is nothing to start from.\n{methods}\n  set the method that was found in the "
            "run file"
        )
    taken: set[str] = set()
    for item in owned(model):
        name = f"encoder.{_in_encoder(item)}"
        if item.part != "encoder" or name not in trained:
            continue
        if not in_files(item):
            raise WeftError(
                f"start: the run of {folder} trained the encoder, and method {new_method.name!r} keeps "
                "the "
                f"weights of {model.encoder_source.name!r} (such as {item.name}), so that a bundle could "
                f"not hold them.\n{methods}\n  {_as_encoder(folder, tasks)}"
            )
        _fill(item, file.get_tensor(name), folder / SHARED_FILE, name)
        taken.add(name)
    heads = 0
    for task in model.tasks:
        if task.name in tasks:
            path = task_file(folder, task.name)
            heads += _take_head(model, task.name, files[path], path)
    return (
        f"{folder} has method {method.name!r}, this run has {new_method.name!r}: copied are {len(taken)} "
        "tensors "
        f"of the trained encoder and the heads of {heads} tasks; all else starts from initial values"
    )


def _take_head(model: Model, task: str, file: Any, path: Path) -> bool:
    """Copy a task's head from its open file, if the file has all of it."""
    items = [i for i in owned(model) if i.part == "heads" and i.owner == f"task:{task}"]
    stored = set(file.keys())
    if not items or not all(item.name in stored for item in items):
        return False
    for item in items:
        _fill(item, file.get_tensor(item.name), path, item.name)
    return True


def _in_encoder(item: Owned) -> str:
    """A parameter's name within its encoder, which may be shared or belong to one task."""
    prefix = "encoder." if item.owner == ENCODER else f"encoder.{item.owner}."
    return item.name.removeprefix(prefix)


def _fill(item: Owned, tensor: torch.Tensor, path: Path, name: str) -> None:
    if tensor.shape != item.data.shape:
        expected, shape = list(item.data.shape), list(tensor.shape)
        raise WeftError(f"start: {path}: {name!r} has shape {shape}; expected {expected}")
    check_dtype(item, tensor, f"start: {path}: {name!r}")
    check_tensor(path, name, tensor)
    fill(item, tensor)
