"""Checkpoints: everything that a run needs for a bit-exact resume, as safetensors and JSON."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from weft.core.stacked import ENCODER, task_owner
from weft.errors import WeftError
from weft.model.ownership import owned
from weft.training.optim.l0 import gates_of
from weft.training.optim.sharding import sharded_like, whole
from weft.utils.files import new_folder, open_to_others, write_json
from weft.utils.finite import NOT_FINITE, not_finite
from weft.utils.processes import Processes

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.training.optim.owners import OwnerOptimizers

PREFIX = "step-"
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def trained_tensors(model: Model) -> dict[str, Tensor]:
    """The parameters that a run may have changed, by name, sharing the model's memory.

    These are the parameters that train; gates, even after they are decided; and encoders that belong to one
    task (method `separate`), including their frozen weights.
    """
    kept = {id(gate.get_parameter("alpha")) for gate in gates_of(model)}
    kept |= {id(i.parameter) for i in owned(model) if i.part == "encoder" and i.owner != ENCODER}
    return {name: p.data for name, p in model.named_parameters() if p.requires_grad or id(p) in kept}


def tensors_of_task(model: Model, task: str) -> dict[str, Tensor]:
    """The tensors that belong to one task and train, by parameter name, sharing the model's memory."""
    owner = task_owner(task)
    return {item.name: item.data for item in owned(model) if item.owner == owner and item.trains}


def save_tensors(path: Path, tensors: Mapping[str, Tensor], processes: Processes | None = None) -> None:
    """Write tensors to one file, atomically; all processes must call this, and the main one writes.

    Args:
        path: the file.
        tensors: the tensors by name; sharded ones are gathered.
        processes: the processes that train together; by default only this one.
    """
    full = {name: whole(t).contiguous() for name, t in tensors.items()}
    (processes or Processes()).on_main(lambda: _write(path, full))


def _write(path: Path, tensors: dict[str, Tensor]) -> None:
    work = path.with_name(f".{path.name}.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, work)
    open_to_others(work)
    work.replace(path)


def load_tensors(path: Path, live: Mapping[str, Tensor]) -> None:
    """Copy the tensors of a file into existing tensors of the same names."""
    stored = load_file(path)
    if stored.keys() != live.keys():
        odd = sorted(stored.keys() ^ live.keys())[0]
        raise WeftError(f"{path} does not match the model: {odd!r} is only in one of the two")
    if bad := not_finite(stored):
        raise WeftError(f"{path}: weights are {NOT_FINITE} ({bad[0]}), as after a run that diverged")
    for name, tensor in live.items():
        tensor.copy_(sharded_like(stored[name], tensor))


def save_checkpoint(
    folder: Path,
    step: int,
    model: Model,
    optimizers: OwnerOptimizers,
    state: dict[str, Any],
    more: Mapping[str, Tensor] | None = None,
    processes: Processes | None = None,
) -> Path:
    """Write a checkpoint after `step` steps, then delete the older ones.

    All processes must call this, because tensors may be sharded; the main one writes.

    Args:
        folder: the folder of the run's checkpoints.
        step: the number of steps done.
        model: the model.
        optimizers: its optimizers; their state is stored by owner.
        state: the other state of the loop, JSON-serializable.
        more: further state, as tensors.
        processes: the processes that train together; by default only this one.
    """
    target = folder / f"{PREFIX}{step:08d}"
    files = {"weights": trained_tensors(model), "optimizers": _moments(optimizers), "more": dict(more or {})}
    full = {file: {k: whole(t).contiguous() for k, t in tensors.items()} for file, tensors in files.items()}

    def write() -> None:
        with new_folder(target) as work:
            for file, tensors in full.items():
                save_file(tensors, work / f"{file}.safetensors")
            write_json(work / "state.json", {**state, "step": step})
        for old in _all(folder)[:-1]:
            shutil.rmtree(old)

    (processes or Processes()).on_main(write)
    return target


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint; None if there is none."""
    checkpoints = _all(folder)
    return checkpoints[-1] if checkpoints else None


def load_checkpoint(path: Path, model: Model, optimizers: OwnerOptimizers) -> dict[str, Any]:
    """Load a checkpoint into the model and the optimizers; returns the state of the loop."""
    load_tensors(path / "weights.safetensors", trained_tensors(model))
    stored = load_file(path / "optimizers.safetensors")
    optimizers.moved = {key.rsplit("|", 2)[0] for key in stored}
    for owner, optimizer in optimizers.optimizers.items():
        for number, parameter in enumerate(optimizers.parameters(owner)):
            entry = {m: stored[k] for m in MOMENTS if (k := f"{owner}|{number}|{m}") in stored}
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


def read_state(path: Path) -> dict[str, Any]:
    """The JSON state of a checkpoint."""
    return json.loads((path / "state.json").read_text(encoding="utf-8"))


def environment(world: int) -> dict[str, Any]:
    """The facts of a checkpoint that the rounding of later steps depends on; `world` processes train."""
    return {"torch": torch.__version__, "threads": torch.get_num_threads(), "processes": world}


def _all(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob(f"{PREFIX}*") if (p / "state.json").is_file())


def _moments(optimizers: OwnerOptimizers) -> dict[str, Tensor]:
    return {
        f"{owner}|{number}|{moment}": optimizer.state[parameter][moment]
        for owner, optimizer in optimizers.optimizers.items()
        for number, parameter in enumerate(optimizers.parameters(owner))
        if owner in optimizers.moved  # a captured step also creates moments of owners that never moved: zeros
        for moment in MOMENTS
    }
