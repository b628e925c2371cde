"""Checkpoints: everything that a run needs for a bit-exact resume, as safetensors and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from weft.core.stacked import ENCODER, task_owner
from weft.errors import WeftError
from weft.model.ownership import owned
from weft.training.optim.l0 import gates_of
from weft.training.optim.sharding import sharded_like, whole
from weft.training.run.checkpoint_files import PREFIX, STATE, delete_old, read_state
from weft.utils.checksums import file_sha256, sealed
from weft.utils.files import as_json, new_folder, open_to_others, sync
from weft.utils.finite import NOT_FINITE, not_finite
from weft.utils.processes import Processes
from weft.utils.temporary import temporary_folder
from weft.utils.tensor_files import save_file
from weft.utils.write_errors import explained, under_final_names

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.training.optim.owners import OwnerOptimizers

MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def trained_tensors(model: Model) -> dict[str, Tensor]:
    """The parameters that a run may have changed, by name, sharing the model's memory.

    These are the parameters that train; gates, even after they are decided; constant factors, which a
    different machine might compute differently; and encoders that belong to one task (method `separate`),
    including their frozen weights.
    """
    kept = {id(gate.get_parameter("alpha")) for gate in gates_of(model)}
    kept |= {
        id(i.parameter) for i in owned(model) if i.constant or (i.part == "encoder" and i.owner != ENCODER)
    }
    # detach, not data: loading weights then counts as a new version of a parameter
    return {name: p.detach() for name, p in model.named_parameters() if p.requires_grad or id(p) in kept}


def tensors_of_task(model: Model, task: str) -> dict[str, Tensor]:
    """The tensors that belong to one task and train, by parameter name, sharing the model's memory."""
    owner = task_owner(task)
    return {item.name: item.data for item in owned(model) if item.owner == owner and item.trains}


def save_tensors(path: Path, tensors: Mapping[str, Tensor], processes: Processes | None = None) -> str:
    """Write tensors to one file, atomically; all processes must call this, and the main one writes.

    Returns the sha256 of the file.

    Args:
        path: the file.
        tensors: the tensors by name; sharded ones are gathered.
        processes: the processes that train together; by default only this one.
    """
    full = {name: whole(t).contiguous() for name, t in tensors.items()}
    return (processes or Processes()).on_main(lambda: _write(path, full))


def _write(path: Path, tensors: dict[str, Tensor]) -> str:
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(path) as folder, under_final_names(folder, path.parent):
            work = folder / path.name
            save_file(tensors, work)
            open_to_others(work)
            sync(work)
            sha256 = file_sha256(work)
            work.replace(path)
            sync(path.parent)
    return sha256


def load_tensors(path: Path, live: Mapping[str, Tensor]) -> None:
    """Copy the tensors of a file into existing tensors of the same names, shapes and dtypes."""
    try:
        stored = load_file(path)
    except FileNotFoundError:
        raise WeftError(f"{path} is missing") from None
    except SafetensorError as wrong:
        raise WeftError(f"{path} is damaged: {wrong}") from None
    if stored.keys() != live.keys():
        odd = sorted(stored.keys() ^ live.keys())[0]
        raise WeftError(f"{path} does not match the model: {odd!r} is only in one of the two")
    if bad := not_finite(stored):
        raise WeftError(f"{path}: weights are {NOT_FINITE} ({bad[0]}), as after a run that diverged")
    for name, tensor in live.items():
        _check_form(stored[name], tensor, f"{path}: {name!r}")
        tensor.copy_(sharded_like(stored[name], tensor))


def _check_form(stored: Tensor, live: Tensor, where: str) -> None:
    """Refuse a tensor of a different shape or dtype, which would be broadcast or converted."""
    forms = [f"shape {list(tensor.shape)} and dtype {tensor.dtype}" for tensor in (stored, live)]
    if forms[0] != forms[1]:
        raise WeftError(f"{where} has {forms[0]}; expected {forms[1]}")


def save_checkpoint(
    folder: Path,
    step: int,
    model: Model,
    optimizers: OwnerOptimizers,
    state: dict[str, Any],
    more: Mapping[str, Tensor] | None = None,
    processes: Processes | None = None,
) -> Path:
    """Write a checkpoint after `step` steps, then delete all but the last two.

    All processes must call this, because tensors may be sharded; the main one writes.

    Args:
        folder: the folder of the run's checkpoints.
        step: the number of steps done.
        model: the model.
        optimizers: its optimizers; their state is stored by owner.
        state: the other state of the loop, JSON-serializable; its `best` has the sha256 of the files of best
            weights that it refers to, by their names in `folder`.
        more: further state, as tensors.
        processes: the processes that train together; by default only this one.
    """
    target = folder / f"{PREFIX}{step:08d}"
    parts = {"weights": trained_tensors(model), "optimizers": _moments(optimizers), "more": dict(more or {})}
    full = {
        f"{part}.safetensors": {k: whole(t).contiguous() for k, t in tensors.items()}
        for part, tensors in parts.items()
    }

    def write() -> None:
        with new_folder(target) as work:
            for name, tensors in full.items():
                save_file(tensors, work / name)
            files = {name: file_sha256(work / name) for name in full}
            record = sealed({"best": {}, **state, "step": step, "files": files})
            (work / STATE).write_text(as_json(record), encoding="utf-8")  # flushed with the folder
        delete_old(folder, step)

    (processes or Processes()).on_main(write)
    return target


def load_checkpoint(path: Path, model: Model, optimizers: OwnerOptimizers) -> dict[str, Any]:
    """Load a checkpoint into the model and the optimizers; returns the state of the loop."""
    load_tensors(path / "weights.safetensors", trained_tensors(model))
    stored = load_file(path / "optimizers.safetensors")
    optimizers.moved = {key.rsplit("|", 2)[0] for key in stored}
    for owner, optimizer in optimizers.optimizers.items():
        for number, parameter in enumerate(optimizers.parameters(owner)):
            entry = {m: stored[k] for m in MOMENTS if (k := f"{owner}|{number}|{m}") in stored}
            if any(tensor.shape != parameter.shape for m, tensor in entry.items() if m != "step"):
                raise WeftError(
                    f"{path / 'optimizers.safetensors'} does not match the model: {owner}|{number}"
                )
            if entry:
                # a step count is one number, even if the parameter is sharded
                optimizer.state[parameter] = {
                    m: t.clone().to(parameter.device) if m == "step" else sharded_like(t.clone(), parameter)
                    for m, t in entry.items()
                }
            else:
                optimizer.state.pop(parameter, None)
    return read_state(path)


def read_more(path: Path) -> dict[str, Tensor]:
    """The further tensors of a checkpoint; none in checkpoints of early versions."""
    file = path / "more.safetensors"
    return load_file(file) if file.is_file() else {}


def environment(world: int) -> dict[str, Any]:
    """The facts of a checkpoint that the rounding of later steps depends on; `world` processes train."""
    return {"torch": torch.__version__, "threads": torch.get_num_threads(), "processes": world}


def _moments(optimizers: OwnerOptimizers) -> dict[str, Tensor]:
    return {
        f"{owner}|{number}|{moment}": optimizer.state[parameter][moment]
        for owner, optimizer in optimizers.optimizers.items()
        for number, parameter in enumerate(optimizers.parameters(owner))
        if owner in optimizers.moved  # a captured step also creates moments of owners that never moved: zeros
        for moment in MOMENTS
    }
