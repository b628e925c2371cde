"""Computes frozen maps and the terms of their adapters together (see `weft.kernels.joined`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft.acceleration.fused_qkv import FusedQkv
from weft.acceleration.patch import Forwards
from weft.core.route import RouteHolder
from weft.encoder.weave import woven_of
from weft.encoder.woven import WovenLinear
from weft.kernels.joined import joined_linear

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter


class JoinedMaps(Forwards):
    """Joins the frozen woven maps of an encoder whose adapters all define their components.

    Args:
        groups: the maps of the blocks; maps that read the same input (query, key, value) form one group.

    Attributes:
        modules: the maps that are joined.
        adapters: the adapters whose terms are joined.
    """

    def __init__(self, groups: Sequence[Sequence[nn.Linear]]) -> None:
        self.modules: list[nn.Linear] = []
        self.adapters: list[Adapter] = []
        places: list[tuple[nn.Module, Callable[[Tensor], Tensor]]] = []
        for maps in groups:
            wovens = [woven_of(linear) for linear in maps]
            adapters = [adapter for woven in wovens for part in _parts(woven) for adapter in part]
            if _can_join(maps, wovens, adapters):
                self.modules += maps
                self.adapters += adapters
                together = _Joined(maps, wovens)
                places += zip(maps, together.parts() if len(maps) > 1 else [together.whole], strict=True)
        super().__init__(places)


def _parts(woven: Any) -> Sequence[Sequence[Adapter]]:
    return woven.parts if isinstance(woven, WovenLinear) else ((),)


def _can_join(maps: Sequence[nn.Linear], wovens: Sequence[Any], adapters: Sequence[Adapter]) -> bool:
    """Return whether the maps are frozen, the adapters define their components, and joining is faster.

    A single bias at a single map is cheaper as a sum, which a compiler fuses with the following operations.
    """
    for linear, woven in zip(maps, wovens, strict=True):
        # a map whose computation was replaced, for example by int8, cannot be joined
        if woven is not None and getattr(getattr(woven, "inner", None), "__self__", None) is not linear:
            return False
    if not adapters or not all(adapter.can_join() for adapter in adapters):
        return False
    if any(p.requires_grad for linear in maps for p in linear.parameters()):
        return False
    several = len(maps) > 1 or len(_parts(wovens[0])) > 1
    return several or any(adapter.reads_input for adapter in adapters)


class _Joined(FusedQkv):
    """One map, or query, key and value: y = W·x + b + U·z(x).

    The weights of three maps are copied when this is created.

    Args:
        maps: one map, or three that read the same input; all with biases or none.
        wovens: the object that each map was woven with; None for a map without adapters.
    """

    def __init__(self, maps: Sequence[nn.Linear], wovens: Sequence[WovenLinear | None]) -> None:
        super().__init__()
        self.weight = (
            torch.cat([linear.weight.detach() for linear in maps]) if len(maps) > 1 else maps[0].weight
        )
        biases: list[Tensor] = [linear.bias.detach() for linear in maps if linear.bias is not None]
        self.bias = torch.cat(biases) if biases else None
        self.terms: list[Sequence[Adapter]] = [part for woven in wovens for part in _parts(woven)]
        self.holder: RouteHolder = next(woven.holder for woven in wovens if woven is not None)

    def whole(self, x: Tensor) -> Tensor:
        """[R, L, i] → [R, L, P·o]; without a route, only the maps."""
        route = self.holder.adapting
        if route is None:
            return F.linear(x, self.weight, self.bias)
        terms = [[adapter.components(route) for adapter in part] for part in self.terms]
        return joined_linear(x, self.weight, self.bias, terms)
