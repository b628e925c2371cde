"""Reading a bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from weft.bundle.save import FORMAT, MANIFEST, METADATA, SHARED_FILE, in_files, key, method_sha256, task_file
from weft.encoder.load import as_encoder, file_sha256, weights_sha256
from weft.errors import WeftError
from weft.methods import build_method
from weft.ownership import Owned, owned
from weft.tasks.task import Task

if TYPE_CHECKING:
    from torch import Tensor

    from weft.model import Model


def load(folder: str | Path, *, encoder: Any = None, device: str | None = None) -> Model:
    """Load a bundle.

    Args:
        folder: the bundle's folder, or a run's folder that holds one.
        encoder: the encoder or where it is, if not where it was; its weights must be the same.
        device: where to put the model.
    """
    from weft.model import Model

    folder = find_bundle(folder)
    said = read_manifest(folder)
    tasks, stands = [], {}
    for name in said["tasks"]:
        facts = read_facts(task_file(folder, name))
        if facts["task"]["name"] != name:
            raise WeftError(f"{task_file(folder, name)} holds the task {facts['task']['name']!r}")
        tasks.append(_task(facts["task"]))
        stands[name] = facts["stands_on"]
    method = build_method(said["method"])
    where = encoder or (folder / "encoder" if said["encoder"]["included"] else said["encoder"]["name"])
    loaded = as_encoder(where, seed=said["seed"], device=device)
    loaded.sha256 = loaded.sha256 or weights_sha256(loaded.model)
    loaded.name = said["encoder"]["name"]
    if encoder is None and (included := said["encoder"]["included"]):
        if loaded.sha256 != included:
            raise WeftError(
                f"{folder / 'encoder'} is not the encoder that came with this bundle: its hash differs"
            )
        loaded.sha256 = said["encoder"]["sha256"]  # other files, the same weights
        loaded.travels = True
    found = {
        "encoder": loaded.sha256,
        "shared": file_sha256(folder / SHARED_FILE),
        "method": method_sha256(method),
    }
    for name, expected in stands.items():
        for part, sha256 in expected.items():
            if found[part] != sha256:
                raise WeftError(
                    f"{task_file(folder, name)} stands on another {part} than this bundle has.\n"
                    f"  sha256 found    {found[part]}\n  sha256 expected {sha256}"
                )
    model = Model(
        loaded,
        tasks,
        method,
        pool=said["heads"]["pool"],
        head_dropout=said["heads"]["dropout"],
        max_length=said["max_length"],
        seed=said["seed"],
    )
    _fill(model, folder)
    return model.to(device) if device else model


def find_bundle(folder: str | Path) -> Path:
    """The bundle itself, from its folder or from a run's."""
    folder = Path(folder)
    for place in (folder, folder / "bundle"):
        if (place / MANIFEST).is_file():
            return place
    raise WeftError(f"{folder} holds no bundle ({MANIFEST} is missing); a run writes one when it ends")


def read_manifest(folder: Path) -> dict[str, Any]:
    """What bundle.json says, checked."""
    path = folder / MANIFEST
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as wrong:
        raise WeftError(f"{path} is not JSON: {wrong}") from None
    found = said.get("format") if isinstance(said, dict) else None
    if found != FORMAT:
        raise WeftError(f"{path} has format {found!r}; this weft reads format {FORMAT}")
    for key_ in ("encoder", "method", "tasks", "heads", "max_length", "seed"):
        if key_ not in said:
            raise WeftError(f"{path} lacks {key_!r}")
    if not (folder / SHARED_FILE).is_file():
        raise WeftError(f"{folder / SHARED_FILE} is missing")
    return said


def read_facts(path: Path) -> dict[str, Any]:
    """What a task's file says of its task and of what it stands on."""
    try:
        with safe_open(path, "pt") as file:
            return json.loads((file.metadata() or {})[METADATA])
    except FileNotFoundError:
        raise WeftError(f"{path} is missing, though {MANIFEST} lists its task") from None
    except (SafetensorError, KeyError, ValueError) as wrong:
        raise WeftError(f"{path} is no task file of a bundle: {wrong}") from None


def _task(said: dict[str, Any]) -> Task:
    values: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in said.items()}
    return Task(**values)


def _fill(model: Model, folder: Path) -> None:
    """Copy every file's tensors into the model; each must be there, once, in its shape."""
    by_file: dict[Path, list[Owned]] = {folder / SHARED_FILE: []}
    for item in owned(model):
        if in_files(item):
            kind, _, name = item.owner.partition(":")
            file = task_file(folder, name) if kind == "task" else folder / SHARED_FILE
            by_file.setdefault(file, []).append(item)
    for path, items in by_file.items():
        with safe_open(path, "pt") as file:
            unknown = set(file.keys()) - {key(item) for item in items}
            if unknown:
                raise WeftError(f"{path} holds {sorted(unknown)[0]!r}, which this model has no place for")
            for item in items:
                _copy(item, file, path)


def _copy(item: Owned, file: Any, path: Path) -> None:
    if key(item) not in file.keys():  # noqa: SIM118  (a safetensors file is no dict)
        raise WeftError(f"{path} lacks {key(item)!r}")
    tensor: Tensor = file.get_tensor(key(item))
    if tensor.shape != item.data.shape:
        expected, found = list(item.data.shape), list(tensor.shape)
        raise WeftError(f"{path}: {key(item)!r} has shape {found}; expected {expected}")
    item.data.copy_(tensor)
