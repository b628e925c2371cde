"""Trackers: where a run's losses and scores are shown while it trains, besides log.jsonl.

A new tracker is one file and one line in `TRACKERS`. Importing this imports neither torch nor any tracker's
package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.registry import Registry
from weft.training.trackers.tracker import Sink, TrackedRun, Tracker

if TYPE_CHECKING:
    from weft.training.settings import Training

_HERE = "weft.training.trackers"

TENSORBOARD = "tensorboard"

TRACKERS: Registry[type[Tracker]] = Registry(
    "tracker",
    {
        TENSORBOARD: f"{_HERE}.tensorboard:TensorBoard",
        "wandb": f"{_HERE}.wandb:Wandb",
    },
)
"""The names that `train.trackers` takes."""

__all__ = ["TRACKERS", "Sink", "TrackedRun", "Tracker", "build_tracker", "trackers_of"]


def build_tracker(spec: object) -> Tracker:
    """Build a tracker from its entry in a run file.

    Args:
        spec: a name (`tensorboard`), settings (`{use: wandb, mode: offline}`), or a `Tracker`.
    """
    settings: dict[str, Any] = {}
    if isinstance(spec, Tracker):
        return spec
    if isinstance(spec, str):
        name = spec
    elif isinstance(spec, Mapping):
        settings = {str(key): value for key, value in spec.items()}
        if "use" not in settings:
            raise WeftError(f"{dict(spec)!r} lacks the key 'use', which names the tracker")
        name = str(settings.pop("use"))
    else:
        raise WeftError(f"expected a name or settings with 'use'; found {spec!r}")
    return TRACKERS[name](**settings)


def trackers_of(training: Training) -> list[Tracker]:
    """Return the trackers that the settings of `train` name; `tensorboard: true` is one of them.

    Args:
        training: the settings.
    """
    specs = list(training.trackers)
    if training.tensorboard and all(spec["use"] != TENSORBOARD for spec in specs):
        specs.append({"use": TENSORBOARD})
    return [build_tracker(spec) for spec in specs]
