"""Dropout that a compiler can make one kernel of with what is around it, on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft.engines.dress import OwnForwards
from weft.kernels_attention import MANY

if TYPE_CHECKING:
    from weft.model import Model
    from weft.routing import Route


def drawn(like: Tensor, key: Tensor) -> Tensor:
    """A random number below 2³¹ for each place of a tensor, in its shape: a hash of the place and of a key.

    Three rounds of a product and a shift: after two, numbers of places that are a power of two apart know of
    each other (a correlation of 0.02). Numbers are written out: a compiler takes names of numbers for data.

    Args:
        like: any; its values are not read.
        key: [2] int32.
    """
    x = torch.arange(like.numel(), dtype=torch.int32, device=like.device).view(like.shape) ^ key[0]
    x = (x ^ ((x >> 16) & 0xFFFF)) * 0x21F0AAAD
    x = x ^ key[1]
    x = (x ^ ((x >> 15) & 0x1FFFF)) * 0x735A2D97
    x = (x ^ ((x >> 15) & 0x1FFFF)) * 0x2C1B3C6D
    return (x >> 1) & 0x7FFFFFFF


class HashedDropout(nn.Module):
    """y = x ∘ m / (1 − p), m drawn anew in every pass by a hash; torch's own where nothing was prepared.

    A generator that makes four numbers at a time cannot be part of a kernel in which a thread has one place;
    one that makes four to use one costs more than the sums and norms around it. Numbers are below `MANY`.

    Args:
        module: the dropout in whose place it stands; its `key` is that of the pass, [2] int32.
    """

    def __init__(self, module: nn.Dropout) -> None:
        super().__init__()
        self._module = [module]  # in a list: not a part of this one

    def forward(self, x: Tensor) -> Tensor:
        """[...] → [...]."""
        module = self._module[0]
        key = key_of(module)
        if key is None or not module.training or not 0.0 < module.p < 1.0:
            return F.dropout(x, module.p, module.training)
        least = round(module.p * MANY)
        return torch.where(drawn(x, key) >= least, x * (MANY / (MANY - least)), 0.0)


def key_of(module: Any) -> Tensor | None:
    """The key of a dropout in this pass, if one was drawn; None too for what is no dropout."""
    found: Tensor | None = getattr(module, "key", None)
    return found


class FusedDropout(OwnForwards):
    """The dropouts of all blocks, hashed; the keys of a pass are drawn at once, before the first block.

    Args:
        model: the model.
        blocks: those of its encoders.
    """

    def __init__(self, model: Model, blocks: list[nn.Module]) -> None:
        found = {
            id(module): module for block in blocks for module in block.modules() if type(module) is nn.Dropout
        }
        self._modules: list[Any] = list(found.values())
        self._prepared = model.preparing
        self._model = model
        super().__init__((module, HashedDropout(module).forward) for module in self._modules)

    def on(self) -> None:
        """Draw by a hash."""
        super().on()
        if self._modules and self not in self._prepared:
            self._prepared.append(self)

    def remove(self) -> None:
        """Draw as torch does."""
        super().remove()
        if self in self._prepared:
            self._prepared.remove(self)
        self.forget()

    def prepare(self, route: Route) -> None:
        """Draw the keys of a pass."""
        if self._model.training:
            device = route.task.device
            keys = torch.empty(len(self._modules), 2, dtype=torch.int32, device=device).random_()
            for module, key in zip(self._modules, keys.unbind(0), strict=True):
                module.key = key

    def forget(self) -> None:
        """Drop them."""
        for module in self._modules:
            module.__dict__.pop("key", None)
