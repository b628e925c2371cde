"""Frozen maps and the terms of their adapters as one product and one onto it."""

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
    """The frozen woven maps of an encoder whose adapters all say their components.

    Args:
        groups: the maps of the blocks, those that read the same input together: query, key and value.

    Attributes:
        modules: the maps that are joined.
        adapters: those whose terms are part of it.
    """

    def __init__(self, groups: Sequence[Sequence[nn.Linear]]) -> None:
        self.modules: list[nn.Linear] = []
        self.adapters: list[Adapter] = []
        places: list[tuple[nn.Module, Callable[[Tensor], Tensor]]] = []
        for maps in groups:
            wovens = [woven_of(one) for one in maps]
            found = [adapter for woven in wovens for part in _parts(woven) for adapter in part]
            if _can_join(maps, wovens, found):
                self.modules += maps
                self.adapters += found
                together = _Joined(maps, wovens)
                places += zip(maps, together.parts() if len(maps) > 1 else [together.whole], strict=True)
        super().__init__(places)


def _parts(woven: Any) -> Sequence[Sequence[Adapter]]:
    return woven.parts if isinstance(woven, WovenLinear) else ((),)


def _can_join(maps: Sequence[nn.Linear], wovens: Sequence[Any], adapters: Sequence[Adapter]) -> bool:
    """Whether maps are frozen, adapters say their components, and it pays.

    A bias alone at a map alone is cheaper as a sum, which a compiler puts together with what comes after it.
    """
    for one, woven in zip(maps, wovens, strict=True):
        # a map that another has taken the place of, as one in int8, is its own
        if woven is not None and getattr(getattr(woven, "inner", None), "__self__", None) is not one:
            return False
    if not adapters or not all(adapter.can_join() for adapter in adapters):
        return False
    if any(p.requires_grad for one in maps for p in one.parameters()):
        return False
    several = len(maps) > 1 or len(_parts(wovens[0])) > 1
    return several or any(adapter.reads_input for adapter in adapters)


class _Joined(FusedQkv):
    """One map, or query, key and value: y = W·x + b + U·z(x).

    Of three maps the weights are copied, as they are now.

    Args:
        maps: one, or three that read the same; all with biases or none.
        wovens: what each was woven with; None of one without adapters.
    """

    def __init__(self, maps: Sequence[nn.Linear], wovens: Sequence[WovenLinear | None]) -> None:
        super().__init__()
        self.weight = torch.cat([one.weight.detach() for one in maps]) if len(maps) > 1 else maps[0].weight
        biases: list[Tensor] = [one.bias.detach() for one in maps if one.bias is not None]
        self.bias = torch.cat(biases) if biases else None
        self.terms: list[Sequence[Adapter]] = [part for woven in wovens for part in _parts(woven)]
        self.holder: RouteHolder = next(woven.holder for woven in wovens if woven is not None)

    def whole(self, x: Tensor) -> Tensor:
        """[R, L, i] → [R, L, P·o]; the maps alone without a route."""
        route = self.holder.adapting
        if route is None:
            return F.linear(x, self.weight, self.bias)
        terms = [[adapter.components(route) for adapter in part] for part in self.terms]
        return joined_linear(x, self.weight, self.bias, terms)
