"""Checkpoints: everything that a run needs to go on exactly, in safetensors and JSON alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from weft.errors import WeftError
from weft.files import new_folder, write_json
from weft.training.l0 import gates_of

if TYPE_CHECKING:
    from weft.model import Model
    from weft.training.owners import OwnerOptimizers

PREFIX = "step-"
MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def trained_tensors(model: Model) -> dict[str, Tensor]:
    """The parameters that train, by name, as they live in the model; gates that are decided too."""
    gates = {id(gate.get_parameter("alpha")) for gate in gates_of(model)}
    return {name: p.data for name, p in model.named_parameters() if p.requires_grad or id(p) in gates}


def save_weights(path: Path, model: Model) -> None:
    """Write what trains to one file, in one move."""
    work = path.with_name(f".{path.name}.new")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: t.contiguous() for name, t in trained_tensors(model).items()}, work)
    work.replace(path)


def load_weights(path: Path, model: Model) -> None:
    """Copy a file's tensors into the live parameters."""
    stored = load_file(path)
    live = trained_tensors(model)
    if stored.keys() != live.keys():
        odd = sorted(stored.keys() ^ live.keys())[0]
        raise WeftError(f"{path} is of another model: {odd!r} is in one of the two only")
    for name, tensor in live.items():
        tensor.copy_(stored[name])


def save_checkpoint(
    folder: Path, step: int, model: Model, optimizers: OwnerOptimizers, state: dict[str, Any]
) -> Path:
    """Write a checkpoint after `step` steps, then delete the older ones.

    Args:
        folder: the run's checkpoints.
        step: how many steps are done.
        model: the model.
        optimizers: its optimisers; their state is stored by owner.
        state: what else the loop needs, JSON-able.
    """
    target = folder / f"{PREFIX}{step:08d}"
    with new_folder(target) as work:
        save_weights(work / "weights.safetensors", model)
        save_file(_moments(optimizers), work / "optimizers.safetensors")
        write_json(work / "state.json", {**state, "step": step})
    for old in _all(folder)[:-1]:
        shutil.rmtree(old)
    return target


def last_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint, if there is one."""
    found = _all(folder)
    return found[-1] if found else None


def load_checkpoint(path: Path, model: Model, optimizers: OwnerOptimizers) -> dict[str, Any]:
    """Copy a checkpoint into the live model and optimisers; returns the loop's state."""
    load_weights(path / "weights.safetensors", model)
    stored = load_file(path / "optimizers.safetensors")
    for owner, optimizer in optimizers.optimizers.items():
        for number, parameter in enumerate(_parameters(optimizer)):
            entry = {m: stored[k] for m in MOMENTS if (k := f"{owner}|{number}|{m}") in stored}
            if entry:
                device = parameter.device
                optimizer.state[parameter] = {m: t.clone().to(device) for m, t in entry.items()}
            else:
                optimizer.state.pop(parameter, None)
    return read_state(path)


def read_state(path: Path) -> dict[str, Any]:
    """What a checkpoint says of its run, without its tensors."""
    return json.loads((path / "state.json").read_text(encoding="utf-8"))


def _all(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob(f"{PREFIX}*") if (p / "state.json").is_file())


def _moments(optimizers: OwnerOptimizers) -> dict[str, Tensor]:
    return {
        f"{owner}|{number}|{moment}": optimizer.state[parameter][moment].contiguous()
        for owner, optimizer in optimizers.optimizers.items()
        for number, parameter in enumerate(_parameters(optimizer))
        if parameter in optimizer.state
        for moment in MOMENTS
    }


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]
