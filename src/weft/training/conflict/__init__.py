"""Gradient conflicts: methods that merge the gradients of several tasks, and telemetry of the conflicts.

A new method is one class and one line in `CONFLICTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.registry import Registry
from weft.training.conflict.conflict import Conflict, Merged

if TYPE_CHECKING:
    from weft.training.conflict.gradients import TaskGradients
    from weft.training.conflict.telemetry import Telemetry

_HERE = "weft.training.conflict"

CONFLICTS: Registry[type[Conflict]] = Registry(
    "conflict",
    {
        "aligned_mtl": f"{_HERE}.weightings:AlignedMTL",
        "cagrad": f"{_HERE}.weightings:CAGrad",
        "cr_mogm": f"{_HERE}.cr_mogm:CRMOGM",
        "dual_proj": f"{_HERE}.weightings:DualProj",
        "fair_grad": f"{_HERE}.weightings:FairGrad",
        "grad_vac": f"{_HERE}.remembering:GradVac",
        "imtl_g": f"{_HERE}.weightings:IMTLG",
        "mean": f"{_HERE}.plain:Mean",
        "mgda": f"{_HERE}.weightings:MGDA",
        "nash_mtl": f"{_HERE}.remembering:NashMTL",
        "pcgrad": f"{_HERE}.pcgrad:PCGrad",
        "pcgrad_tseng": f"{_HERE}.pcgrad:PCGradTseng",
        "random": f"{_HERE}.weightings:Random",
        "sum": f"{_HERE}.plain:Sum",
        "upgrad": f"{_HERE}.weightings:UPGrad",
    },
)

LEFT_OUT = {
    "config": "it needs the gradients themselves, and weft passes only their products (the Gramian)",
    "constant": "fixed weights are train.task_weights: {TASK: weight}",
    "excess_mtl": "it needs the gradients themselves, and its state is as large as the model for each task",
    "grad_drop": "it needs the gradients themselves, and weft passes only their products (the Gramian)",
    "krum": "it drops the gradients of some tasks as if they were malicious",
    "mo_do": "it needs two independent batches of every task in a step",
    "modo": "it needs two independent batches of every task in a step",
    "pcd": "it prefers one task, which would have to be in every step",
    "sdm_grad": "it needs two independent batches of every task in a step",
    "sdmgrad": "it needs two independent batches of every task in a step",
    "tseng": "it is named pcgrad_tseng",
    "trimmed_mean": "it needs the gradients themselves, and weft passes only their products (the Gramian)",
}
"""Methods of torchjd that weft does not offer, with the reason."""

__all__ = [
    "CONFLICTS",
    "Conflict",
    "Merged",
    "TaskGradients",
    "Telemetry",
    "build_conflict",
]


def build_conflict(spec: object) -> Conflict:
    """Build a method that merges gradients, from its setting in a run file.

    Args:
        spec: a name (`pcgrad`), settings (`{use: pcgrad, reduction: sum}`), or a `Conflict`.
    """
    settings: dict[str, Any] = {}
    if isinstance(spec, Conflict):
        return spec
    if isinstance(spec, str):
        name = spec
    elif isinstance(spec, Mapping):
        settings = {str(k): v for k, v in spec.items()}
        if "use" not in settings:
            raise WeftError(f"conflict: {dict(spec)!r} lacks the key 'use', which names the method")
        name = str(settings.pop("use"))
    else:
        raise WeftError(f"conflict: expected a name or settings with 'use'; found {spec!r}")
    if name in LEFT_OUT:
        raise WeftError(f"conflict {name!r} is not offered: {LEFT_OUT[name]}; known: {', '.join(CONFLICTS)}")
    conflict = CONFLICTS[name](**settings)
    conflict.check_installed()
    return conflict


def __getattr__(name: str) -> object:
    """Import the names that need torch when they are first used."""
    if name == "TaskGradients":
        from weft.training.conflict.gradients import TaskGradients

        return TaskGradients
    if name == "Telemetry":
        from weft.training.conflict.telemetry import Telemetry

        return Telemetry
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
