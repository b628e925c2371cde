"""Computes query, key and value as one product: three maps of one input are one map, three times as wide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from weft.acceleration.patch import OwnForwards
from weft.encoder.anatomy import anatomy_of, find
from weft.encoder.sites import BLOCK_MAPS
from weft.encoder.weave import woven_of
from weft.encoder.woven import WovenLinear

MAPS = ("query", "key", "value")


class FusedQkv(ABC):
    """Three maps of one input, computed together when the first one is called.

    The other two must be called with the same tensor x, as in self-attention; with a different one, each is
    computed `alone`.

    Attributes:
        latest: the last result of all three together; its consumer sets it to None.
    """

    def __init__(self) -> None:
        self._held: tuple[Tensor, tuple[Tensor, ...]] | None = None
        self.latest: Tensor | None = None

    @abstractmethod
    def whole(self, x: Tensor) -> Tensor:
        """Return the results of all three, concatenated: [R, L, i] → [R, L, 3·o]."""

    def alone(self, number: int, x: Tensor) -> Tensor:
        """Return the result of one of them, [R, L, o]."""
        return self.whole(x).chunk(len(MAPS), -1)[number]

    def parts(self) -> list[Callable[[Tensor], Tensor]]:
        """Return the function that replaces each map."""
        return [self.first, self.second, self.third]

    def first(self, x: Tensor) -> Tensor:
        """Compute all three maps, and return the first map's part."""
        whole = self.whole(x)
        parts = whole.chunk(len(MAPS), -1)
        self._held, self.latest = (x, parts), whole
        return parts[0]

    def second(self, x: Tensor) -> Tensor:
        """Return the second map's part."""
        return self._of(1, x)

    def third(self, x: Tensor) -> Tensor:
        """Return the third map's part, and release the stored results."""
        part = self._of(2, x)
        self._held = None
        return part

    def _of(self, number: int, x: Tensor) -> Tensor:
        if self._held is None or self._held[0] is not x:
            return self.alone(number, x)
        return self._held[1][number]


class _Together(FusedQkv):
    """[q; k; v] = [W_q; W_k; W_v]·x + [b_q; b_k; b_v]; frozen weights are concatenated once.

    Args:
        maps: the three linear maps, all with biases or none.
    """

    def __init__(self, maps: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.maps = list(maps)
        self._frozen: tuple[Tensor, Tensor | None] | None = None
        if not any(p.requires_grad for m in maps for p in m.parameters()):
            self._frozen = self._weights()

    def _weights(self) -> tuple[Tensor, Tensor | None]:
        weights: list[Tensor] = [m.weight for m in self.maps]
        biases: list[Tensor] = [m.bias for m in self.maps if m.bias is not None]
        return torch.cat(weights), torch.cat(biases) if biases else None

    def whole(self, x: Tensor) -> Tensor:
        """See `FusedQkv`."""
        weight, bias = self._weights() if self._frozen is None else self._frozen
        return F.linear(x, weight, bias)

    def alone(self, number: int, x: Tensor) -> Tensor:
        """See `FusedQkv`."""
        return F.linear(x, self.maps[number].weight, self.maps[number].bias)


def groups_of(encoder: nn.Module) -> list[list[nn.Linear]]:
    """Return the linear maps of every block; query, key and value form one group if they read one input."""
    anatomy = anatomy_of(encoder)
    if anatomy.disentangled:
        return []
    groups: list[list[nn.Linear]] = []
    for block in encoder.get_submodule(anatomy.blocks).children():
        maps: dict[str, Any] = {}
        for name in BLOCK_MAPS:
            place = anatomy.in_block.get(name)
            located = None if place is None else find(block, place if isinstance(place, str) else place[0])
            if located is not None and isinstance(located[1], nn.Linear) and located[1] not in maps.values():
                maps[name] = located[1]
        three = [maps[name] for name in MAPS if name in maps]
        forms = {(m.in_features, m.out_features, m.bias is None, m.weight.dtype) for m in three}
        together = len(three) == len(MAPS) and len(forms) == 1
        groups += [three] if together else [[m] for m in three]
        groups += [[m] for name, m in maps.items() if name not in MAPS]
    return groups


class FusedMaps(OwnForwards):
    """Computes the query, key and value maps of every block of an encoder together.

    Nothing is done if they are already one map (ModernBERT), or do not all read the same input (DeBERTa,
    whose relative positions pass through some of them).

    Args:
        encoder: a woven encoder; the results of its maps do not change.
        but: maps that are already part of another product.
    """

    def __init__(self, encoder: nn.Module, but: Collection[nn.Module] = ()) -> None:
        places: list[tuple[nn.Module, Callable[[Tensor], Tensor]]] = []
        others = {id(module) for module in but}
        for maps in groups_of(encoder):
            known = all(woven_of(m) is None or isinstance(woven_of(m), WovenLinear) for m in maps)
            if known and len(maps) == len(MAPS) and not any(id(m) in others for m in maps):
                places += zip(maps, _Together(maps).parts(), strict=True)
        super().__init__(places)
