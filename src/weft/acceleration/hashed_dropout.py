"""Dropout by a hash of keys that are drawn before a pass, so it can be fused and run in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft.acceleration.patch import OwnForwards
from weft.adapters.lora import LoraAdapter
from weft.encoder.anatomy import anatomy_of
from weft.kernels.dropout import KEYS, drawn, hashed

if TYPE_CHECKING:
    from weft.core.route import Route
    from weft.model.model import Model

__all__ = ["FusedDropout", "HashedDropout", "drawn", "key_of"]


class HashedDropout(nn.Module):
    """y = x ∘ m / (1 − p), with a new mask m in every pass, drawn by a hash; torch's dropout without a key.

    A generator that makes four numbers at a time cannot be fused into a kernel in which each thread handles
    one element; making four and using one costs more than the sums and norms around it.

    Args:
        module: the dropout that it replaces; its `key` is the key of the pass, [2] int32.
    """

    def __init__(self, module: nn.Dropout) -> None:
        super().__init__()
        self._module = [module]  # in a list, so that it is not a submodule

    def forward(self, x: Tensor) -> Tensor:
        """[...] → [...]."""
        module = self._module[0]
        key = key_of(module)
        if key is None or not module.training or not 0.0 < module.p < 1.0:
            return F.dropout(x, module.p, module.training)
        return hashed(x, module.p, key)


def key_of(module: Any) -> Tensor | None:
    """Return the key of a dropout in this pass; None if none was drawn or it is not a dropout."""
    key: Tensor | None = getattr(module, "key", None)
    return key


class FusedDropout(OwnForwards):
    """Hashed dropout for blocks, for adapters in blocks and for heads.

    The keys of a pass are drawn together, before the first block: the key of a dropout does not depend on the
    order in which compiled code runs. Blocks that run several times in a pass (ALBERT's) keep torch's:
    with one key per pass, every run would drop the same elements.

    Args:
        model: the model.
        blocks: blocks whose dropouts are hashed as well. On a CPU this is empty: torch's dropout is faster
            there, and the dropouts of a block depend on each other, so their order is fixed.
    """

    def __init__(self, model: Model, blocks: Sequence[nn.Module]) -> None:
        repeats = any(anatomy_of(encoder).repeats for encoder in model.encoders)
        dropouts = {
            id(module): module
            for block in (() if repeats else blocks)
            for module in block.modules()
            if type(module) is nn.Dropout
        }
        self._modules: list[Any] = list(dropouts.values())
        heads: list[Any] = list(model.heads.values())
        self._heads: dict[Any, int] = {head: head.layers for head in heads if head.reads != "cosine"}
        self._adapters: list[Any] = [
            adapter
            for site, adapter in model.placements
            if not repeats
            and site.layer is not None
            and isinstance(adapter, LoraAdapter)
            and adapter.dropout > 0
        ]
        self._prepared = model.preparing
        self._model = model
        super().__init__((module, HashedDropout(module).forward) for module in self._modules)

    def apply(self) -> None:
        """Use hashed dropout."""
        super().apply()
        if self not in self._prepared:
            self._prepared.append(self)

    def undo(self) -> None:
        """Use torch's dropout."""
        super().undo()
        if self in self._prepared:
            self._prepared.remove(self)
        self.forget()
        for head in self._heads:
            head.__dict__.pop(KEYS, None)

    def prepare(self, route: Route) -> None:
        """Draw the keys of a pass."""
        if not self._model.training:
            return
        sizes = [1] * (len(self._modules) + len(self._adapters)) + list(self._heads.values())
        keys = torch.empty(sum(sizes), 2, dtype=torch.int32, device=route.task.device).random_()
        owners = [*self._modules, *self._adapters, *self._heads]
        for number, (module, module_keys) in enumerate(zip(owners, keys.split(sizes), strict=True)):
            if number < len(self._modules):
                module.key = module_keys[0]
            else:
                module.__dict__[KEYS] = module_keys

    def forget(self) -> None:
        """Drop the keys of the blocks; heads run after the blocks, and keep theirs until the next pass."""
        for module in self._modules:
            module.__dict__.pop("key", None)
        for adapter in self._adapters:
            adapter.__dict__.pop(KEYS, None)
