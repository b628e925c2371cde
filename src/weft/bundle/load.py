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
"""What bundle.json must say, and in which form."""


def load(
    folder: str | Path, *, encoder: Any = None, device: str | None = None, kernels: Setting = "auto"
) -> Model:
    """Load a bundle.

    Args:
        folder: the bundle's folder, or a run's folder that holds one.
        encoder: the encoder or where it is, if not where it was; its weights must be the same.
        device: where to put the model.
        kernels: as `Model` takes it; it is no part of a bundle.
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
    """Load a bundle with some of it at its start: new tasks behind its own, and what of its own is asked for.

    A start value depends on its owner and place alone, so that all else is as `load` gives it.

    Args:
        folder: the bundle's folder, or a run's folder that holds one.
        added: tasks that it does not have.
        fresh: whether an owner's share of a parameter stays at its start, whatever the files say.
        encoder: the encoder or where it is, if not where it was; its weights must be the same.
        device: where to put the model.
    """
    from weft.model.model import Model

    folder = find_bundle(folder)
    said = read_manifest(folder)
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
    model = Model(
        loaded,
        [*read_tasks(folder, said, loaded.sha256).values(), *added],
        method,
        pool=said["heads"]["pool"],
        head_dropout=said["heads"]["dropout"],
        max_length=said["max_length"],
        seed=said["seed"],
    )
    _fill(model, folder, {task_owner(task.name) for task in added}, fresh)
    return model.to(device) if device else model


def read_tasks(folder: Path, said: dict[str, Any], encoder_sha256: str | None) -> dict[str, Task]:
    """The tasks by name, of files that stand on what the bundle has.

    Args:
        folder: the bundle.
        said: what its bundle.json says.
        encoder_sha256: of the encoder that is there.
    """
    found = {
        "encoder": encoder_sha256,
        "shared": file_sha256(folder / SHARED_FILE),
        "method": method_sha256(said["method"]),
    }
    tasks = {}
    for name in said["tasks"]:
        path = task_file(folder, name)
        facts = read_facts(path)
        if facts["task"].get("name") != name:
            raise WeftError(f"{path} holds the task {facts['task'].get('name')!r}")
        for part, sha256 in facts["stands_on"].items():
            if part not in found:
                raise WeftError(f"{path} stands on {part!r}, which this weft does not know; use a later one")
            if found[part] != sha256:
                raise WeftError(
                    f"{path} stands on another {part} than this bundle has.\n"
                    f"  sha256 found    {found[part]}\n  sha256 expected {sha256}"
                )
        tasks[name] = _task(facts["task"])
    return tasks


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
    for name, (kinds, expected) in FIELDS.items():
        if name not in said:
            raise WeftError(f"{path} lacks {name!r}")
        if not isinstance(said[name], kinds):
            raise WeftError(f"{path}: {name} is {said[name]!r}; expected {expected}")
    for section, keys in (("encoder", ("name", "sha256", "included")), ("heads", ("pool", "dropout"))):
        for name in keys:
            if name not in said[section]:
                raise WeftError(f"{path}: {section} lacks {name!r}")
    names = said["tasks"]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names) or not names:
        raise WeftError(f"{path}: tasks is {names!r}; expected the names of the tasks, each once")
    if not (folder / SHARED_FILE).is_file():
        raise WeftError(f"{folder / SHARED_FILE} is missing")
    return said


def read_facts(path: Path) -> dict[str, Any]:
    """What a task's file says of its task and of what it stands on."""
    try:
        with safe_open(path, "pt") as file:
            facts: dict[str, Any] = json.loads((file.metadata() or {})[METADATA])
        if not (isinstance(facts["task"], dict) and isinstance(facts["stands_on"], dict)):
            raise ValueError("its metadata has another form")
        return facts
    except FileNotFoundError:
        raise WeftError(f"{path} is missing, though {MANIFEST} lists its task") from None
    except (SafetensorError, KeyError, ValueError) as wrong:
        raise WeftError(f"{path} is no task file of a bundle: {wrong}") from None


def _task(said: dict[str, Any]) -> Task:
    values: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in said.items()}
    try:
        return Task(**values)
    except TypeError as wrong:  # a setting of a later weft
        raise WeftError(
            f"task {said.get('name')!r}: its file says what this weft does not know: {wrong}"
        ) from None


def _fill(model: Model, folder: Path, new: Collection[str], fresh: Callable[[Owned], bool]) -> None:
    """Copy every file's tensors into the model; each must be there, once, in its shape.

    Args:
        model: a model at its start.
        folder: the bundle.
        new: the owners that have no file.
        fresh: what stays at its start though there is a file.
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
                raise WeftError(f"{path} holds {sorted(unknown)[0]!r}, which this model has no place for")
            for item in items:
                if not fresh(item):
                    copy_in(item, file, path, ranked)


def copy_in(item: Owned, file: Any, path: Path, ranked: Ranked) -> None:
    """Copy an owner's tensor from an open file into the model."""
    if key(item) not in file.keys():  # noqa: SIM118  (a safetensors file is no dict)
        raise WeftError(f"{path} lacks {key(item)!r}")
    tensor: Tensor = file.get_tensor(key(item))
    if not fits(item, tensor, ranked):
        expected, found = list(item.data.shape), list(tensor.shape)
        raise WeftError(f"{path}: {key(item)!r} has shape {found}; expected {expected}")
    fill(item, tensor)
