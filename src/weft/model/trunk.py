"""The trunk: the lowest blocks, whose output is the same for every task, or in which nothing trains.

    hidden_k = block_{k−1}(… block_0(embeddings)),  trunk = hidden_k, [R, L, d]

`run_trunk` runs it once for many tasks, or once for a whole training run. `model(…, trunk=…)` then runs only
the blocks from number k on, and everything above them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from weft.core.route import Route
from weft.core.stacked import StackedModule
from weft.encoder.anatomy import anatomy_of, path_of
from weft.errors import WeftError
from weft.kernels.dispatch import select
from weft.model.inputs import single_task

if TYPE_CHECKING:
    from weft.encoder.sites import Site
    from weft.model.model import Model

LOWEST = ("embeddings", "embeddings_norm")
"""Sites below the blocks; all other sites without a layer are above the blocks."""


@dataclass(eq=False)
class Trunk:
    """The output of the lowest blocks for some rows.

    Attributes:
        depth: k, the number of these blocks; at least 1.
        hidden: the input of block k, [R, L, d].
        layers: the embeddings and each block's output, k + 1 times [R, L, d]; None: not kept.
    """

    depth: int
    hidden: Tensor
    layers: tuple[Tensor, ...] | None = None

    @property
    def collected(self) -> tuple[Tensor, ...]:
        """The layers, which somebody reads."""
        if self.layers is None:
            raise WeftError("this trunk was made without its layers; make it with run_trunk(…, layers=True)")
        return self.layers

    def of_rows(self, index: Tensor) -> Trunk:
        """Return the trunk of the rows with these indices, [N]."""
        layers = None if self.layers is None else tuple(select(layer, index) for layer in self.layers)
        return Trunk(self.depth, select(self.hidden, index), layers)


def trunk_depth(model: Model, tasks: Sequence[int] | None = None) -> int:
    """Return how many of the lowest blocks have the same output for these tasks, from 0 to all blocks.

    Tasks do not differ by an adapter that they all share, or that belongs to a group they are all in.

    Args:
        model: the model.
        tasks: the tasks' ids; by default all tasks of the model.
    """
    if model.method.separate:
        return 0
    ids = range(len(model.tasks)) if tasks is None else tasks
    places = [_place(model, site) for site, adapter in model.placements if _differs(adapter, ids)]
    return min(places, default=model.num_layers)


def frozen_depth(model: Model) -> int:
    """Return how many of the lowest blocks have no trained parameter in or below them, from 0 to all."""
    if model.method.separate:
        return 0
    places = [
        _place(model, site)
        for site, adapter in model.placements
        if any(parameter.requires_grad for parameter in adapter.parameters())
    ]
    places += [
        _place_of_name(model, name)
        for name, parameter in model.encoder.named_parameters()
        if parameter.requires_grad
    ]
    return min(places, default=model.num_layers)


def run_trunk(
    model: Model, inputs: Mapping[str, Tensor], task: Tensor, depth: int, layers: bool = False
) -> Trunk:
    """Run only the lowest blocks, in the mode that the model is in.

    Args:
        model: the model.
        inputs: `input_ids`, `attention_mask` and `token_type_ids` as for `Model.forward`; other keys are
            ignored.
        task: the task id of each row, [R].
        depth: the number of blocks, 1 or more.
        layers: whether to keep the layers; they are always kept if an adapter reads them.
    """
    ids, mask = inputs["input_ids"], inputs.get("attention_mask")
    collected: list[Tensor | None] = [None] * (model.num_layers + 1)
    route = Route(
        task.to(ids.device),
        None if mask is None else mask.bool(),
        collected,
        single=single_task(task),
        bare=model.is_bare,
        until=depth,
        kernels=model.kernels,
    )
    names = ("input_ids", "attention_mask", "token_type_ids")
    with model.turn():
        model.body.encode(route, {name: inputs[name] for name in names if name in inputs})
    every = [layer for layer in collected[: depth + 1] if layer is not None]
    return Trunk(depth, every[-1], tuple(every) if layers or model.body.reads_layers else None)


def has_dropout(model: Model, depth: int) -> bool:
    """Return whether the lowest blocks use dropout while the model trains."""
    lowest: list[nn.Module] = [
        module for name, module in model.encoder.named_modules() if _place_of_name(model, name) < depth
    ]
    for site, adapter in model.placements:
        if _place(model, site) < depth:
            lowest += adapter.modules()
    return any(rate > 0 for module in lowest for rate in _rates(module))


def _rates(module: nn.Module) -> Iterator[float]:
    """Yield a module's dropout rates: of a dropout module, or an attribute that it passes to an attention."""
    for name, value in vars(module).items():
        if isinstance(value, float) and (
            "dropout" in name or (name in ("p", "drop_prob") and "Drop" in type(module).__name__)
        ):
            yield value


def _place(model: Model, site: Site) -> int:
    """Return the number of the lowest block that a site affects; the number of blocks if it is above them."""
    if site.layer is not None:
        return site.layer
    return 0 if site.kind in LOWEST else model.num_layers


def _place_of_name(model: Model, name: str) -> int:
    """Like `_place`, for a module or a parameter of the encoder."""
    anatomy = anatomy_of(model.encoder)
    if name.startswith(f"{anatomy.blocks}."):
        return int(name.removeprefix(f"{anatomy.blocks}.").split(".")[0])
    # all other modules outside the blocks affect the lowest one: embeddings, relative positions
    above = ("pooler", path_of(anatomy, "final_norm") or "pooler")
    return model.num_layers if any(f"{name}.".startswith(f"{path}.") for path in above) else 0


def _differs(adapter: nn.Module, tasks: Sequence[int]) -> bool:
    """Return whether some parameter of an adapter differs between these tasks."""
    return any(
        len({stack.slots.of_task[task] for task in tasks}) > 1
        for module in adapter.modules()
        if isinstance(module, StackedModule)
        for stack in module.stacks.values()
    )
