"""Reading a bundle."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from weft.bundle.padding import Ranked, fill, fits, ranked_parameters
from weft.bundle.save import FORMAT, MANIFEST, METADATA, SHARED_FILE, in_files, key, method_sha256, task_file
from weft.core.stacked import task_owner
from weft.encoder.load import as_encoder, file_sha256, weights_sha256
from weft.errors import WeftError
from weft.kernels.dispatch import checked_setting
from weft.kernels.setting import Setting
from weft.methods import build_method
from weft.model.ownership import Owned, owned
from weft.tasks.task import Task

if TYPE_CHECKING:
    from torch import Tensor

    from weft.model.model import Model


FIELDS: dict[str, tuple[Any, str]] = {
    "encoder": (dict, "its name and sha256"),
    "method": (dict | list, "the method's settings"),
    "tasks": (list, "the names of the tasks"),
    "heads": (dict, "what heads read, and their dropout"),
    "max_length": (int, "a number of tokens"),
    "seed": (int, "a whole number"),
}
"""The fields that bundle.json must have: their types, and what they hold."""


def load(
    folder: str | Path, *, encoder: Any = None, device: str | None = None, kernels: Setting = "auto"
) -> Model:
    """Load a bundle.

    Args:
        folder: the bundle's folder, or a run folder that holds one.
        encoder: the encoder, or its folder or hub id if it has moved; its weights must be the same.
        device: the device of the model.
        kernels: as in `Model`; this setting is not part of a bundle.
    """
    model = load_changed(folder, encoder=encoder, device=device)
    model.kernels = checked_setting(kernels)
    return model


def load_changed(
    folder: str | Path,
    *,
    added: Sequence[Task] = (),
    fresh: Callable[[Owned], bool] = lambda item: False,
    encoder: Any = None,
    device: str | None = None,
) -> Model:
    """Load a bundle with new tasks, or with initial values for some of its parameters.

    New tasks come after those of the bundle. An initial value depends only on its owner and its name, so that
    all other parameters are as in `load`.

    Args:
        folder: the bundle's folder, or a run folder that holds one.
        added: tasks that the bundle does not have.
        fresh: whether an owner's slice of a parameter keeps its initial value, whatever the files hold.
        encoder: the encoder, or its folder or hub id if it has moved; its weights must be the same.
        device: the device of the model.
    """
    from weft.model.model import Model

    folder = find_bundle(folder)
    manifest = read_manifest(folder)
    method = build_method(manifest["method"])
    where = encoder or (
        folder / "encoder" if manifest["encoder"]["included"] else manifest["encoder"]["name"]
    )
    loaded = as_encoder(where, seed=manifest["seed"], device=device)
    loaded.sha256 = loaded.sha256 or weights_sha256(loaded.model)
    loaded.name = manifest["encoder"]["name"]
    if encoder is None and (included := manifest["encoder"]["included"]):
        if loaded.sha256 != included:
            raise WeftError(
                f"{folder / 'encoder'} is not the encoder that came with this bundle: its hash differs"
            )
        loaded.sha256 = manifest["encoder"]["sha256"]  # different files, the same weights
        loaded.travels = True
    model = Model(
        loaded,
        [*read_tasks(folder, manifest, loaded.sha256).values(), *added],
        method,
        pool=manifest["heads"]["pool"],
        head_dropout=manifest["heads"]["dropout"],
        max_length=manifest["max_length"],
        seed=manifest["seed"],
    )
    _fill(model, folder, {task_owner(task.name) for task in added}, fresh)
    return model.to(device) if device else model


def read_tasks(folder: Path, manifest: dict[str, Any], encoder_sha256: str | None) -> dict[str, Task]:
    """Return the tasks by name, after checking that their files match the bundle.

    Args:
        folder: the bundle.
        manifest: the contents of its bundle.json.
        encoder_sha256: the hash of the encoder that was loaded.
    """
    actual = {
        "encoder": encoder_sha256,
        "shared": file_sha256(folder / SHARED_FILE),
        "method": method_sha256(manifest["method"]),
    }
    tasks = {}
    for name in manifest["tasks"]:
        path = task_file(folder, name)
        facts = read_facts(path)
        if facts["task"].get("name") != name:
            raise WeftError(f"{path} holds the task {facts['task'].get('name')!r}")
        for part, sha256 in facts["stands_on"].items():
            if part not in actual:
                raise WeftError(
                    f"{path} needs {part!r}, which this version of weft does not know; use a later version"
                )
            if actual[part] != sha256:
                raise WeftError(
                    f"{path} needs a different {part} than this bundle has.\n"
                    f"  sha256 found    {actual[part]}\n  sha256 expected {sha256}"
                )
        tasks[name] = _task(facts["task"])
    return tasks


def bundle_tasks(folder: str | Path) -> list[Task]:
    """Return the tasks of a bundle in their order, without its weights."""
    folder = find_bundle(folder)
    names = read_manifest(folder)["tasks"]
    return [_task(read_facts(task_file(folder, name))["task"]) for name in names]


def find_bundle(folder: str | Path) -> Path:
    """Return the folder of a bundle, from that folder or from a run folder that holds it."""
    folder = Path(folder)
    for path in (folder, folder / "bundle"):
        if (path / MANIFEST).is_file():
            return path
    raise WeftError(f"{folder} holds no bundle ({MANIFEST} is missing); a run writes one when it ends")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check bundle.json."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as wrong:
        raise WeftError(f"{path} is not JSON: {wrong}") from None
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if version != FORMAT:
        raise WeftError(f"{path} has format {version!r}; this version of weft reads format {FORMAT}")
    for name, (kinds, expected) in FIELDS.items():
        if name not in manifest:
            raise WeftError(f"{path} lacks {name!r}")
        if not isinstance(manifest[name], kinds):
            raise WeftError(f"{path}: {name} is {manifest[name]!r}; expected {expected}")
    for section, keys in (("encoder", ("name", "sha256", "included")), ("heads", ("pool", "dropout"))):
        for name in keys:
            if name not in manifest[section]:
                raise WeftError(f"{path}: {section} lacks {name!r}")
    names = manifest["tasks"]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names) or not names:
        raise WeftError(f"{path}: tasks is {names!r}; expected the names of the tasks, each once")
    if not (folder / SHARED_FILE).is_file():
        raise WeftError(f"{folder / SHARED_FILE} is missing")
    return manifest


def read_facts(path: Path) -> dict[str, Any]:
    """Read the metadata of a task's file: the task's settings, and the hashes of what it needs."""
    try:
        with safe_open(path, "pt") as file:
            facts: dict[str, Any] = json.loads((file.metadata() or {})[METADATA])
        if not (isinstance(facts["task"], dict) and isinstance(facts["stands_on"], dict)):
            raise ValueError("its metadata has a different form")
        return facts
    except FileNotFoundError:
        raise WeftError(f"{path} is missing, though {MANIFEST} lists its task") from None
    except (SafetensorError, KeyError, ValueError) as wrong:
        raise WeftError(f"{path} is not a task file of a bundle: {wrong}") from None


def _task(settings: dict[str, Any]) -> Task:
    values: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    try:
        return Task(**values)
    except TypeError as wrong:  # a setting of a later version of weft
        raise WeftError(
            f"task {settings.get('name')!r}: this version of weft does not know a setting in its file: "
            f"{wrong}"
        ) from None


def _fill(model: Model, folder: Path, new: Collection[str], fresh: Callable[[Owned], bool]) -> None:
    """Copy the tensors of all files into the model; each must be there, once, in its shape.

    Args:
        model: a model with initial values.
        folder: the bundle.
        new: the owners that have no file.
        fresh: whether a tensor keeps its initial value although there is a file.
    """
    by_file: dict[Path, list[Owned]] = {folder / SHARED_FILE: []}
    for item in owned(model):
        if in_files(item) and item.owner not in new:
            kind, _, name = item.owner.partition(":")
            file = task_file(folder, name) if kind == "task" else folder / SHARED_FILE
            by_file.setdefault(file, []).append(item)
    ranked = ranked_parameters(model)
    for path, items in by_file.items():
        with safe_open(path, "pt") as file:
            unknown = set(file.keys()) - {key(item) for item in items}
            if unknown:
                raise WeftError(f"{path} holds {sorted(unknown)[0]!r}, which is not a tensor of this model")
            for item in items:
                if not fresh(item):
                    copy_in(item, file, path, ranked)


def copy_in(item: Owned, file: Any, path: Path, ranked: Ranked) -> None:
    """Copy an owner's tensor from an open file into the model."""
    if key(item) not in file.keys():  # noqa: SIM118  (a safetensors file is not a dict)
        raise WeftError(f"{path} lacks {key(item)!r}")
    tensor: Tensor = file.get_tensor(key(item))
    if not fits(item, tensor, ranked):
        expected, shape = list(item.data.shape), list(tensor.shape)
        raise WeftError(f"{path}: {key(item)!r} has shape {shape}; expected {expected}")
    fill(item, tensor)
