"""One task's adapters as a LoRA or DoRA for PEFT; what PEFT cannot represent is refused with a reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.adapters.dora import DoraAdapter
from weft.bundle.updates import check_finite
from weft.encoder.anatomy import sites_of
from weft.encoder.sites import BLOCK_LINEAR, LINEAR, NORM, Site
from weft.errors import WeftError
from weft.interop.refusals import to_onnx
from weft.model.transforms.merge import adds_bias, can_have_bias, can_merge

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.model.model import Model


@dataclass
class Block:
    """The update of one linear module: y = W·x + b + up·down·x + bias.

    If a module is divided into several sites, these are rows of one block: each has separate components, and
    `up` is zero in the rows of the others. Several adapters at a site are concatenated along the rank.

    Attributes:
        up: [o, r], PEFT's lora_B with every scale in it.
        down: [r, i], PEFT's lora_A.
        bias: [o], PEFT's bias of lora_B; zero if nothing is added.
        magnitude: [o], PEFT's lora_magnitude_vector: y = (m/‖W + up·down‖)∘(W·x + up·down·x) + b. Rows that
            are NaN belong to no DoRA; see `with_magnitude`.
    """

    up: Tensor
    down: Tensor
    bias: Tensor
    magnitude: Tensor

    @property
    def rank(self) -> int:
        """The number of components; PEFT needs at least one."""
        return self.down.size(0)

    def add(self, site: Site, up: Tensor, down: Tensor) -> None:
        """Add a product at a site, [o_site, k] and [k, i]; an equal `down` is stored once.

        Components of zeros are left out: a compacted site is as wide as its widest task.
        """
        kept = (up.any(0) & down.any(1)).nonzero()[:, 0]
        up, down = up.index_select(1, kept), down.index_select(0, kept)
        rank = up.size(1)
        for start in range(self.rank - rank + 1):
            if torch.equal(self.down[start : start + rank], down):
                site.add_rows(self.up[:, start : start + rank], up)
                return
        wide = self.up.new_zeros(self.up.size(0), rank)
        site.add_rows(wide, up)
        self.up, self.down = torch.cat([self.up, wide], 1), torch.cat([self.down, down])

    def with_magnitude(self, weight: Tensor) -> Tensor:
        """The magnitudes of all rows; those of rows without a DoRA are ‖W + up·down‖, which changes nothing.

        Args:
            weight: W, [o, i].
        """
        norms = (weight.detach() + self.up @ self.down).norm(dim=1)
        return torch.where(self.magnitude.isnan(), norms, self.magnitude)


@dataclass
class Updates:
    """The updates of a task, by the module's path from the encoder's root.

    Attributes:
        blocks: the updates of linear modules.
        norms: the parameters of each changed norm, `weight` and, if it has one, `bias`.
    """

    blocks: dict[str, Block] = field(default_factory=dict)
    norms: dict[str, dict[str, Tensor]] = field(default_factory=dict)

    @property
    def is_dora(self) -> bool:
        """Whether some rows have magnitudes; PEFT then has magnitudes for all modules."""
        return any(not block.magnitude.isnan().all() for block in self.blocks.values())


@torch.no_grad()
def updates_of(model: Model, task: str) -> Updates:
    """Return the updates of one task; an adapter that PEFT cannot represent is refused by name.

    Args:
        model: the model.
        task: the task's name.
    """
    index = model.task_id(task)
    _check_encoder(model, task)
    encoder: Any = model.encoder
    updates = Updates()
    biased: tuple[Site, Adapter] | None = None
    # a DoRA first, as it runs: what is added to its map is then noticed, in whichever order
    for site, adapter in sorted(model.placements, key=lambda placed: not placed[1].scales):
        change = adapter.weight_delta(index) if site.kind in (*LINEAR, *NORM) else None
        if change is None:
            raise _refusal(model, task, site, adapter, "it is not an addition to a weight or a bias")
        check_finite(f"task {task!r} cannot be exported to PEFT: its update of {site.key!r}", *change)
        weight, bias = (None if x is None or not x.any() else x for x in change)
        if weight is None and bias is None:
            continue
        module = encoder.get_submodule(site.path)
        if site.kind in NORM:
            if bias is not None and getattr(module, "bias", None) is None:
                raise _refusal(model, task, site, adapter, "this norm has no bias that PEFT could replace")
            _change_norm(updates.norms.setdefault(site.path, _values(module)), weight, bias)
            continue
        block = updates.blocks.setdefault(site.path, _empty_block(module))
        if isinstance(adapter, DoraAdapter):
            up, down, magnitude = adapter.factors(index)
            block.add(site, up, down)
            site.set_rows(block.magnitude, magnitude)
        elif weight is not None:
            factors = adapter.low_rank_delta(index)
            if not site.rows(block.magnitude).isnan().all():
                reason = "PEFT normalizes every update of a map that has a DoRA"
                raise _refusal(model, task, site, adapter, reason)
            if factors is None:
                raise _refusal(model, task, site, adapter, "its update of the weight is not of low rank")
            block.add(site, *factors)
        if bias is not None:
            site.add_rows(block.bias, bias)
            biased = biased or (site, adapter)
    if biased is not None and updates.is_dora:
        raise _refusal(model, task, *biased, "PEFT adds no biases to a DoRA")
    return updates


def no_update(model: Model) -> tuple[str, Block]:
    """Return a linear module and an update of zero: PEFT does not load an adapter without a module."""
    encoder: Any = model.encoder
    # inside a block: not every model for sequence classification has the encoder's pooler
    path = next(site.path for site in sites_of(encoder) if site.kind in BLOCK_LINEAR)
    return path, _empty_block(encoder.get_submodule(path))


def filled(block: Block) -> Block:
    """Return the block with at least one component, of zeros if it has none: PEFT has no rank 0."""
    if block.rank:
        return block
    inner = block.down.size(1)
    up, down = block.up.new_zeros(block.up.size(0), 1), block.down.new_zeros(1, inner)
    return Block(up, down, block.bias, block.magnitude)


def _empty_block(module: Any) -> Block:
    weight = module.weight.detach()
    outer, inner = weight.shape
    up, down = weight.new_zeros(outer, 0), weight.new_zeros(0, inner)
    return Block(up, down, weight.new_zeros(outer), weight.new_full((outer,), torch.nan))


def _values(norm: Any) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in norm.named_parameters()}


def _change_norm(values: dict[str, Tensor], weight: Tensor | None, bias: Tensor | None) -> None:
    for name, change in (("weight", weight), ("bias", bias)):
        if change is not None:
            values[name].add_(change)


def _check_encoder(model: Model, task: str) -> None:
    """Refuse a model that trained the encoder's weights: a PEFT folder needs the pretrained weights."""
    if model.method.separate:
        reason = f"method {model.method.name!r} gives each task a separate encoder"
    else:
        trained = [(p.name, p.train_encoder) for p in model.method.parts if p.train_encoder != "none"]
        if not trained:
            return
        name, layers = trained[0]
        reason = f"method {name!r} has trained the encoder's weights (train_encoder: {layers})"
    raise WeftError(
        f"task {task!r} cannot be exported to PEFT: {reason}, and a PEFT folder holds an update of the "
        f"pretrained weights.{_instead(model, task)}"
    )


def _refusal(model: Model, task: str, site: Site, adapter: Adapter, reason: str) -> WeftError:
    return WeftError(
        f"task {task!r} cannot be exported to PEFT: {type(adapter).__name__} at {site.key!r} cannot be "
        f"represented there: {reason}.{_instead(model, task)}"
    )


def _instead(model: Model, task: str) -> str:
    """The line with the next command for a user who cannot use PEFT; empty if no export has the model."""
    task_id = model.task_id(task)
    if all(_merges(model, site, adapter, task_id) for site, adapter in model.placements):
        return (
            f"\n  type: weft export BUNDLE --task {task} --to hf --out PATH    (a plain Hugging Face folder)"
        )
    return to_onnx(model)


def _merges(model: Model, site: Site, adapter: Adapter, task: int) -> bool:
    if not can_merge(site, adapter):
        return False
    return can_have_bias(model.encoder, site) or not adds_bias(model.encoder, site, adapter, task)
