"""Reading a bundle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from weft.adapters.svd import factors_from_files
from weft.bundle.checksums import MANIFEST, check_encoder_files
from weft.bundle.consistent import consistently
from weft.bundle.manifest import SHARED_FILE, check_has, find_bundle, read_manifest, read_tasks, task_file
from weft.bundle.padding import Ranked, fill, fits, ranked_parameters
from weft.bundle.save import in_files, key
from weft.bundle.some_tasks import chosen_names, method_of_tasks
from weft.core.stacked import task_owner
from weft.encoder.files import Recorded
from weft.encoder.load import Encoder, as_encoder, weights_sha256
from weft.errors import WeftError, words
from weft.kernels.dispatch import checked_setting
from weft.kernels.setting import Setting
from weft.methods import build_method
from weft.model.ownership import Owned, owned
from weft.tasks.task import Task
from weft.utils.finite import NOT_FINITE, all_finite, not_finite
from weft.utils.forks import before_computing

if TYPE_CHECKING:
    from torch import Tensor

    from weft.model.model import Model


def load(
    folder: str | Path,
    *,
    tasks: str | Sequence[str] | None = None,
    encoder: Any = None,
    device: str | None = None,
    kernels: Setting = "auto",
) -> Model:
    """Load a bundle. The model is in eval mode; training puts it into training mode itself.

    Example:
        >>> model = weft.load("runs/first")                       # a run's folder, or a bundle's
        >>> model = weft.load("anna/reviews@v2", tasks=["rte"])   # from the Hugging Face hub, one task alone

    Args:
        folder: the bundle's folder, a run folder that holds one, or `user/name` or `user/name@revision` on
            the Hugging Face hub. A folder that exists wins over a repository of the same name.
        tasks: the names of the tasks to load, in this order; None: all. The files of other tasks are not
            read, and not fetched from the hub.
        encoder: the encoder, or its folder or hub id if it has moved; its weights must be the same.
        device: the device of the model.
        kernels: as in `Model`; this setting is not part of a bundle.
    """
    model = load_changed(folder, names=chosen_names(tasks), encoder=encoder, device=device)
    model.kernels = checked_setting(kernels)
    return model


def load_changed(
    folder: str | Path,
    *,
    names: Sequence[str] | None = None,
    added: Sequence[Task] = (),
    fresh: Callable[[Owned], bool] = lambda item: False,
    encoder: Any = None,
    device: str | None = None,
) -> Model:
    """Load a bundle with new tasks, or with initial values for some of its parameters.

    New tasks come after those of the bundle. An initial value depends only on its owner and its name, so that
    all other parameters are as in `load`.

    Args:
        folder: the bundle, as in `load`.
        names: the names of the bundle's tasks that are loaded; None: all.
        added: tasks that the bundle does not have.
        fresh: whether an owner's slice of a parameter keeps its initial value, whatever the files hold.
        encoder: the encoder, or its folder or hub id if it has moved; its weights must be the same.
        device: the device of the model.
    """
    from weft.model.model import Model

    before_computing()
    folder = find_bundle(folder, names)
    with ExitStack() as stack:

        def read() -> tuple[dict[str, Any], Encoder, dict[str, Task], OpenFiles]:
            manifest = read_manifest(folder)
            for name in names or ():
                check_has(folder, manifest, name)
            loaded = encoder_of_bundle(folder, manifest, encoder, device)
            tasks = read_tasks(folder, manifest, loaded.sha256, names)
            return manifest, loaded, tasks, open_files(folder, tasks, stack)

        manifest, loaded, tasks, files = consistently(folder, read)
        settings, left_out = manifest["method"], frozenset[str]()
        if names is not None:
            settings, left_out = method_of_tasks(settings, names)
        with factors_from_files():
            model = Model(
                loaded,
                [*tasks.values(), *added],
                build_method(settings),
                pool=manifest["heads"]["pool"],
                head_dropout=manifest["heads"]["dropout"],
                max_length=manifest["max_length"],
                seed=manifest["seed"],
            )
        _fill(model, folder, files, {task_owner(task.name) for task in added}, fresh, left_out)
    _check_encoder(model, folder)
    # a new module is in training mode, and an encoder that was loaded in eval mode: the model has one mode
    return (model.to(device) if device else model).eval()


OpenFiles = Mapping[Path, Any]
"""The open safetensors files of a bundle. They stay readable if the bundle is replaced meanwhile."""


def open_files(folder: Path, tasks: Collection[str], stack: ExitStack) -> OpenFiles:
    """Open the shared file and the files of tasks.

    Args:
        folder: the bundle.
        tasks: the names of the tasks.
        stack: closes the files.
    """
    files = {}
    for path in (folder / SHARED_FILE, *(task_file(folder, name) for name in tasks)):
        try:
            files[path] = stack.enter_context(safe_open(path, "pt"))
        except SafetensorError as wrong:
            raise WeftError(f"{path} is not a file of a bundle: {wrong}") from None
    return files


def encoder_of_bundle(
    folder: Path, manifest: dict[str, Any], encoder: Any, device: str | None = None
) -> Encoder:
    """Load the encoder of a bundle as it was before training; its files are verified first.

    Args:
        folder: the bundle.
        manifest: the contents of its bundle.json.
        encoder: the encoder, or its folder or hub id if it has moved; None: the one that the bundle names.
        device: the device.
    """
    facts, record = manifest["encoder"], folder / MANIFEST
    if encoder is not None:
        loaded = as_encoder(encoder, seed=manifest["seed"], device=device)
        # the bundle's encoder is meant wherever it is now: a copy of this model is saved with its record
        loaded.files = facts.get("files", {})
    elif facts["included"]:
        verified = check_encoder_files(folder, manifest)
        recorded = Recorded(record, facts["included"] if verified else None, verified=verified)
        loaded = as_encoder(folder / "encoder", seed=manifest["seed"], device=device, recorded=recorded)
    else:
        recorded = Recorded(record, facts["sha256"], facts.get("files", {}))
        loaded = as_encoder(facts["name"], seed=manifest["seed"], device=device, recorded=recorded)
    loaded.sha256 = loaded.sha256 or weights_sha256(loaded.model)
    loaded.name = facts["name"]
    if encoder is None and facts["included"]:
        if loaded.sha256 != facts["included"]:
            raise WeftError(
                f"{folder / 'encoder'} is not the encoder that came with this bundle: its hash differs"
            )
        loaded.sha256 = facts["sha256"]  # different files, the same weights
        loaded.travels = True
    return loaded


def _fill(
    model: Model,
    folder: Path,
    files: OpenFiles,
    new: Collection[str],
    fresh: Callable[[Owned], bool],
    left_out: Collection[str] = (),
) -> None:
    """Copy the tensors of all files into the model; each must be there, once, in its shape and dtype.

    Args:
        model: a model with initial values.
        folder: the bundle.
        files: its open files.
        new: the owners that have no file.
        fresh: whether a tensor keeps its initial value although there is a file.
        left_out: owners of tensors of the shared file that the model does not have.
    """
    shared = "shared"
    by_owner: dict[str, list[Owned]] = {shared: []}  # with many tasks, a path per tensor takes seconds
    for item in owned(model):
        if in_files(item) and item.owner not in new:
            owner = item.owner if item.owner.startswith("task:") else shared
            by_owner.setdefault(owner, []).append(item)
    ranked = ranked_parameters(model)
    for owner, items in by_owner.items():
        path = folder / SHARED_FILE if owner == shared else task_file(folder, owner.removeprefix("task:"))
        file = files[path]
        unknown = set(file.keys()) - {key(item) for item in items}
        unknown = {name for name in unknown if not name.startswith(tuple(f"{o}/" for o in left_out))}
        if unknown:
            raise WeftError(f"{path} holds {sorted(unknown)[0]!r}, which is not a tensor of this model")
        for item in items:
            if item.constant or not fresh(item):
                copy_in(item, file, path, ranked)


def _check_encoder(model: Model, folder: Path) -> None:
    """Refuse an encoder whose own weights, which no file of the bundle replaces, are NaN or infinite."""
    source = model.encoder_source
    odd = not_finite({item.name: item.data for item in owned(model) if not in_files(item)})
    if odd:
        where = source.source or source.name
        raise WeftError(
            f"{where}: weights of the encoder of {folder} are {NOT_FINITE} ({odd[0]}); use a different copy "
            f"of it: {words('--encoder FOLDER', 'encoder=FOLDER')}"
        )


def copy_in(item: Owned, file: Any, path: Path, ranked: Ranked) -> None:
    """Copy an owner's tensor from an open file into the model."""
    if key(item) not in file.keys():  # noqa: SIM118  (a safetensors file is not a dict)
        raise WeftError(f"{path} lacks {key(item)!r}")
    tensor: Tensor = file.get_tensor(key(item))
    if not fits(item, tensor, ranked):
        expected, shape = list(item.data.shape), list(tensor.shape)
        raise WeftError(f"{path}: {key(item)!r} has shape {shape}; expected {expected}")
    check_dtype(item, tensor, f"{path}: {key(item)!r}")
    check_tensor(path, key(item), tensor)
    fill(item, tensor)


def check_dtype(item: Owned, tensor: Tensor, where: str) -> None:
    """Refuse a tensor of a different dtype: numbers of a dtype that weft never writes are not converted."""
    if tensor.dtype != item.data.dtype:
        names = [str(dtype).removeprefix("torch.") for dtype in (tensor.dtype, item.data.dtype)]
        raise WeftError(f"{where} has dtype {names[0]}; expected {names[1]}")


def check_tensor(path: Path, name: str, tensor: Tensor) -> None:
    """Refuse a tensor of a bundle that holds NaN or infinity: every output would be wrong or NaN.

    Args:
        path: the file of the tensor.
        name: its name there.
        tensor: its values.
    """
    if all_finite(tensor):
        return
    count = int((~tensor.float().isfinite()).sum())
    message = f"{path}: {count:,} of the {tensor.numel():,} numbers of {name!r} are {NOT_FINITE}"
    if path.parent.name == "tasks":
        bundle, task = path.parent.parent, path.stem
        remove = words(
            f"weft task remove {bundle} {task} --out NEW",
            f"weft.remove_task({str(bundle)!r}, {task!r}, 'NEW')",
        )
        again = words(
            f"weft task retrain {bundle} {task} TASK.yaml --fresh --out NEW",
            f"weft.retrain_task({str(bundle)!r}, {task!r}, weft.Task(…), 'NEW', fresh=True)",
        )
        hint = f"to use the other tasks: {remove}\n  to train this one again: {again}"
    else:
        hint = "all tasks need them: train the model again, or use a copy of the bundle"
    raise WeftError(f"{message}.\n  {hint}")
