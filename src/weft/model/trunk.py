"""The trunk: the lowest blocks, which give the same for every task, or in which nothing trains.

    hidden_k = block_{k−1}(… block_0(embeddings)),  trunk = hidden_k, [R, L, d]

What runs once for many tasks, or once for a whole training, is run by `run_trunk` and handed to the model as
`model(…, trunk=…)`: its blocks from number k on then run, with all that stands above them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from weft.core.route import Route
from weft.core.stacked import StackedModule
from weft.encoder.anatomy import anatomy_of
from weft.errors import WeftError
from weft.kernels.dispatch import select
from weft.model.inputs import single_task

if TYPE_CHECKING:
    from weft.encoder.sites import Site
    from weft.model.model import Model

LOWEST = ("embeddings", "embeddings_norm")
"""Sites below the blocks; those without a layer that are not among them stand above."""

ABOVE = ("pooler", "final_norm")
"""The encoder's modules above its blocks. What is neither a block nor one of them has a part in the lowest
block: the embeddings, and the relative positions that every block reads."""


@dataclass(eq=False)
class Trunk:
    """What the lowest blocks gave for some rows.

    Attributes:
        depth: k, how many blocks they are; at least 1.
        hidden: what enters block k, [R, L, d].
        layers: the embeddings and what each of them gave, k + 1 times [R, L, d]; None: not kept.
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
        """The trunk of other rows made of these, [N] numbers of rows."""
        layers = None if self.layers is None else tuple(select(layer, index) for layer in self.layers)
        return Trunk(self.depth, select(self.hidden, index), layers)


def trunk_depth(model: Model, tasks: Sequence[int] | None = None) -> int:
    """How many of the lowest blocks give the same for these tasks, from 0 to the number of blocks.

    An adapter that all of them share, or a group that they are all in, is no difference between them.

    Args:
        model: the model.
        tasks: their ids; by default all of the model's.
    """
    if model.method.separate:
        return 0
    ids = range(len(model.tasks)) if tasks is None else tasks
    places = [_place(model, site) for site, adapter in model.placements if _differs(adapter, ids)]
    return min(places, default=model.num_layers)


def frozen_depth(model: Model) -> int:
    """How many of the lowest blocks have nothing in or below them that trains, from 0 to their number."""
    if model.method.separate:
        return 0
    places = [
        _place(model, site)
        for site, adapter in model.placements
        if any(parameter.requires_grad for parameter in adapter.parameters())
    ]
    places += [
        _place_of_name(model, name) for name, own in model.encoder.named_parameters() if own.requires_grad
    ]
    return min(places, default=model.num_layers)


def run_trunk(
    model: Model, inputs: Mapping[str, Tensor], task: Tensor, depth: int, layers: bool = False
) -> Trunk:
    """Run the lowest blocks alone, in the mode that the model is in.

    Args:
        model: the model.
        inputs: `input_ids`, `attention_mask` and `token_type_ids` as `Model.forward` takes them; the rest is
            not looked at.
        task: the task id of each row, [R].
        depth: how many blocks, 1 or more.
        layers: whether the trunk is to have its layers, which it has anyhow where an adapter reads them.
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
    """Whether anything in the lowest blocks is dropped while the model trains."""
    lowest: list[nn.Module] = [
        module for name, module in model.encoder.named_modules() if _place_of_name(model, name) < depth
    ]
    for site, adapter in model.placements:
        if _place(model, site) < depth:
            lowest += adapter.modules()
    return any(rate > 0 for module in lowest for rate in _rates(module))


def _rates(module: nn.Module) -> Iterator[float]:
    """A module's rates of dropout: of the module that drops, or a number that it gives to an attention."""
    for name, value in vars(module).items():
        if isinstance(value, float) and (
            "dropout" in name or (name in ("p", "drop_prob") and "Drop" in type(module).__name__)
        ):
            yield value


def _place(model: Model, site: Site) -> int:
    """The number of the lowest block that a site has a part in; the number of blocks for what is above."""
    if site.layer is not None:
        return site.layer
    return 0 if site.kind in LOWEST else model.num_layers


def _place_of_name(model: Model, name: str) -> int:
    """As `_place`, of a module or a parameter of the encoder."""
    blocks = anatomy_of(model.encoder).blocks
    if name.startswith(f"{blocks}."):
        return int(name.removeprefix(f"{blocks}.").split(".")[0])
    return model.num_layers if name.split(".")[0] in ABOVE else 0


def _differs(adapter: nn.Module, tasks: Sequence[int]) -> bool:
    """Whether an adapter has anything that is not the same for all of these tasks."""
    return any(
        len({stack.slots.of_task[task] for task in tasks}) > 1
        for module in adapter.modules()
        if isinstance(module, StackedModule)
        for stack in module.stacks.values()
    )
