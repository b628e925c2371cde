"""The updates that each task of a bundle makes to the encoder's weights and biases, for any method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.core.stacked import task_owner
from weft.encoder.load import Encoder
from weft.encoder.sites import Site
from weft.encoder.weave import unweave
from weft.errors import WeftError
from weft.model.ownership import owned
from weft.tasks.task import Task
from weft.utils.finite import all_finite

if TYPE_CHECKING:
    from weft.bundle.sources import Source, Together
    from weft.methods import Method
    from weft.model.model import Model


@dataclass
class TaskUpdates:
    """The updates of one task, and its head.

    Attributes:
        task: the task.
        weights: ΔW = up·down by site, up [o, k] and down [k, i].
        biases: Δb by site, [o].
        head: the tensors of its head, by their names in the model.
    """

    task: Task
    weights: dict[Site, tuple[Tensor, Tensor]] = field(default_factory=dict)
    biases: dict[Site, Tensor] = field(default_factory=dict)
    head: dict[str, Tensor] = field(default_factory=dict)

    def factors(self, site: Site) -> tuple[Tensor, Tensor]:
        """up and down at a site; of rank 0 if the task has no update there."""
        none = torch.zeros(site.out_width, 0), torch.zeros(0, site.in_width)
        return self.weights.get(site, none)

    def bias(self, site: Site) -> Tensor:
        """Δb at a site; zeros if the task has no update there."""
        return self.biases.get(site, torch.zeros(site.out_width))


def updates_of_all(sources: Sequence[Source], encoder: Any = None) -> tuple[list[TaskUpdates], Encoder]:
    """Return the updates of all tasks of all bundles, and the bare encoder.

    The encoder is loaded once and is in memory once: it is taken out of each model and passed to the next.

    Args:
        sources: bundles with the same encoder, which they do not train.
        encoder: folder or hub id of the encoder, if it has moved.
    """
    from weft.bundle.load import load

    updates: list[TaskUpdates] = []
    for source in sources:
        model = load(source.folder, encoder=encoder)
        updates += _updates(model, source.folder)
        bare: Any = unweave(model.encoder)
        encoder = replace(model.encoder_source, model=bare, name=sources[0].manifest["encoder"]["name"])
    return updates, encoder


def _updates(model: Model, folder: Path) -> list[TaskUpdates]:
    """The updates of one model. An adapter without a low-rank update or a bias update is refused."""
    heads = heads_of(model)
    result = []
    for number, task in enumerate(model.tasks):
        task_updates = TaskUpdates(task, head=heads.get(task_owner(task.name), {}))
        for site, adapter in model.placements:
            with torch.no_grad():
                factors, merged = adapter.low_rank_delta(number), adapter.weight_delta(number)
            check_finite(
                f"{folder}: task {task.name!r}: its update of {site.key!r}", *(factors or merged or ())
            )
            if factors is not None:
                # several adapters of one site: the sum of products is a product
                ups, downs = zip(task_updates.factors(site), factors, strict=True)
                task_updates.weights[site] = torch.cat(ups, 1), torch.cat(downs)
            elif merged is not None and merged[0] is None and merged[1] is not None:
                task_updates.biases[site] = task_updates.bias(site) + merged[1]
            else:
                raise WeftError(
                    f"{folder}: method {model.method.name!r} changes {site.key!r} by neither a low-rank "
                    "update of a weight nor an update of a bias; expected lora, lora_bitfit or bitfit"
                )
        result.append(task_updates)
    return result


def heads_of(model: Model) -> dict[str, dict[str, Tensor]]:
    """Copies of the tensors of the tasks' heads, by owner and name."""
    heads: dict[str, dict[str, Tensor]] = {}
    for item in owned(model):
        if item.part == "heads":
            heads.setdefault(item.owner, {})[item.name] = item.data.clone()
    return heads


def check_finite(where: str, *values: Tensor | None) -> None:
    """Refuse values that are not finite, which a failed training leaves behind.

    Args:
        where: the beginning of the error message.
        values: tensors of any shapes; None is skipped.
    """
    if not all(all_finite(value) for value in values if value is not None):
        raise WeftError(f"{where}: not finite numbers; the model did not train well")


def check_float32(where: str, value: Tensor) -> None:
    """Refuse a tensor of a dtype that weft never writes.

    Args:
        where: the beginning of the error message.
        value: a tensor of any shape.
    """
    if value.dtype != torch.float32:
        raise WeftError(f"{where} has dtype {str(value.dtype).removeprefix('torch.')}; expected float32")


@torch.no_grad()
def model_of(
    encoder: Encoder, updates: Sequence[TaskUpdates], method: Method, together: Together, seed: int
) -> Model:
    """Make a new model of all tasks with their heads; its adapters have their initial values.

    Args:
        encoder: the bare encoder.
        updates: the updates of the tasks, in the order of their ids.
        method: the method.
        together: what the bundles have in common.
        seed: the seed of the adapters' initial values.
    """
    from weft.model.model import Model

    model = Model(
        encoder,
        [task_updates.task for task_updates in updates],
        method,
        pool=together.pool,
        head_dropout=together.head_dropout,
        max_length=together.max_length,
        seed=seed,
    )
    of_owner = {task_owner(task_updates.task.name): task_updates.head for task_updates in updates}
    for item in owned(model):
        if item.part == "heads":
            item.data.copy_(of_owner[item.owner][item.name])
    return model
