"""Samplers, and the plan that decides which examples each step trains on.

A new sampler is one file and one line in `SAMPLERS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.registry import Registry
from weft.sampling.samplers.sampler import Sampler

if TYPE_CHECKING:
    from weft.sampling.plan.plan import Candidates, Epoch, Plan, Share, Step, TaskSummary
    from weft.sampling.samplers.annealed import Annealed
    from weft.sampling.samplers.by_size import Power, Proportional, SquareRoot, Temperature, Uniform
    from weft.sampling.samplers.counterfactual import Counterfactual
    from weft.sampling.samplers.in_turn import RoundRobin, Stretched
    from weft.sampling.samplers.mt_uncertainty import MtUncertainty

SAMPLERS: Registry[type[Sampler]] = Registry(
    "sampler",
    {
        "annealed": "weft.sampling.samplers.annealed:Annealed",
        "counterfactual": "weft.sampling.samplers.counterfactual:Counterfactual",
        "mt_uncertainty": "weft.sampling.samplers.mt_uncertainty:MtUncertainty",
        "power": "weft.sampling.samplers.by_size:Power",
        "proportional": "weft.sampling.samplers.by_size:Proportional",
        "round_robin": "weft.sampling.samplers.in_turn:RoundRobin",
        "square_root": "weft.sampling.samplers.by_size:SquareRoot",
        "stretched": "weft.sampling.samplers.in_turn:Stretched",
        "temperature": "weft.sampling.samplers.by_size:Temperature",
        "uniform": "weft.sampling.samplers.by_size:Uniform",
    },
)

__all__ = [
    "SAMPLERS",
    "Annealed",
    "Candidates",
    "Counterfactual",
    "Epoch",
    "MtUncertainty",
    "Plan",
    "Power",
    "Proportional",
    "RoundRobin",
    "Sampler",
    "Share",
    "SquareRoot",
    "Step",
    "Stretched",
    "TaskSummary",
    "Temperature",
    "Uniform",
    "build_sampler",
]


def build_sampler(spec: object) -> Sampler:
    """Build a sampler from its entry in a run file.

    Args:
        spec: a name (`uniform`), settings (`{use: uniform}`), or a `Sampler`.
    """
    if isinstance(spec, Sampler):
        return spec
    if isinstance(spec, str):
        return SAMPLERS[spec]()
    if isinstance(spec, Mapping):
        settings: dict[str, Any] = {str(k): v for k, v in spec.items()}
        if "use" not in settings:
            raise WeftError(f"sampler: {dict(spec)!r} lacks the key 'use', which names the sampler")
        return SAMPLERS[str(settings.pop("use"))](**settings)
    raise WeftError(f"sampler: expected a name or settings with 'use'; found {spec!r}")


def __getattr__(name: str) -> object:
    """Return the plan or a sampler class by name (`weft.sampling.Uniform`), imported on first use."""
    if name in ("Candidates", "Epoch", "Plan", "Share", "Step", "TaskSummary"):
        from weft.sampling.plan import plan

        return getattr(plan, name)
    if name[:1].isupper():
        for registered in SAMPLERS:
            if registered.replace("_", "") == name.lower():
                return SAMPLERS[registered]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
