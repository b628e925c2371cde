"""Frozen maps and the terms of their adapters as one product and one onto it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft.encoder.weave import woven_of
from weft.encoder.woven import WovenLinear
from weft.kernels_joined import joined_linear
from weft.routing import RouteHolder

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter


class JoinedMaps:
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
        self._places: list[tuple[nn.Module, Any, Callable[[Tensor], Tensor]]] = []
        for maps in groups:
            wovens = [woven_of(one) for one in maps]
            found = [adapter for woven in wovens for part in _parts(woven) for adapter in part]
            if not _can_join(maps, wovens, found):
                continue
            together = _Joined(maps, wovens)
            self.modules += maps
            self.adapters += found
            forwards = [together.whole] if len(maps) == 1 else together.parts_of_three()
            for one, forward in zip(maps, forwards, strict=True):
                self._places.append((one, one.__dict__.get("forward"), forward))
        self.on()

    def on(self) -> None:
        """Compute them so."""
        for module, _, forward in self._places:
            module.__dict__["forward"] = forward

    def remove(self) -> None:
        """Compute each map, and each term, by itself."""
        for module, before, _ in self._places:
            if before is None:
                module.__dict__.pop("forward", None)
            else:
                module.__dict__["forward"] = before


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
    if not adapters or not all(adapter.joins() for adapter in adapters):
        return False
    if any(p.requires_grad for one in maps for p in one.parameters()):
        return False
    several = len(maps) > 1 or len(_parts(wovens[0])) > 1
    return several or any(adapter.reads_input for adapter in adapters)


class _Joined:
    """One map, or query, key and value: y = W·x + b + U·z(x), computed when the first is asked for.

    Of three maps the weights are copied, as they are now.

    Args:
        maps: one, or three that read the same; all with biases or none.
        wovens: what each was woven with; None of one without adapters.
    """

    def __init__(self, maps: Sequence[nn.Linear], wovens: Sequence[WovenLinear | None]) -> None:
        self.weight = torch.cat([one.weight.detach() for one in maps]) if len(maps) > 1 else maps[0].weight
        biases: list[Tensor] = [one.bias.detach() for one in maps if one.bias is not None]
        self.bias = torch.cat(biases) if biases else None
        self.count = len(maps)
        self.terms: list[Sequence[Adapter]] = [part for woven in wovens for part in _parts(woven)]
        self.holder: RouteHolder = next(woven.holder for woven in wovens if woven is not None)
        self._held: tuple[Tensor, tuple[Tensor, ...]] | None = None

    def whole(self, x: Tensor) -> Tensor:
        """[R, L, i] → [R, L, P·o]; the maps alone without a route."""
        route = self.holder.adapting
        if route is None:
            return F.linear(x, self.weight, self.bias)
        terms = [[adapter.components(route) for adapter in part] for part in self.terms]
        return joined_linear(x, self.weight, self.bias, terms)

    def parts_of_three(self) -> list[Callable[[Tensor], Tensor]]:
        """What stands in the place of each of three maps."""
        return [self.first, self.second, self.third]

    def first(self, x: Tensor) -> Tensor:
        """The first map's part; all are computed."""
        parts = self.whole(x).chunk(self.count, -1)
        self._held = (x, parts)
        return parts[0]

    def second(self, x: Tensor) -> Tensor:
        """The second map's part."""
        return self._of(1, x)

    def third(self, x: Tensor) -> Tensor:
        """The third map's part; nothing is held any longer."""
        part = self._of(2, x)
        self._held = None
        return part

    def _of(self, number: int, x: Tensor) -> Tensor:
        if self._held is None or self._held[0] is not x:
            return self.whole(x).chunk(self.count, -1)[number]
        return self._held[1][number]
