"""The biases by task of all sites, made and looked up before the first block."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.adapters.bias import BiasAdapter
from weft.adapters.low_rank_bias import LowRankBiasAdapter
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.kernels.dispatch import select

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.model.model import Model

Shift = BiasAdapter | LowRankBiasAdapter


class BiasTables:
    """The biases of the rows of a pass, those of all sites of one form by one look-up.

    Low-rank ones are first made, D·E_t for every slot: [n, S, r] · [n, r, o]. Each site's own product, of
    four components, takes as long as one of all sites; and a look-up in the midst of a block keeps the
    compiler from its best kernel for a norm (H200, 288×64, BERT-base: 67 µs for 34).

    Args:
        model: the model.
        but: adapters whose biases are part of another product already.
    """

    def __init__(self, model: Model, but: Collection[Adapter] = ()) -> None:
        self._prepared = model.preparing
        self._groups: dict[tuple[type, Slots, torch.Size], list[Shift]] = {}
        others = {id(adapter) for adapter in but}
        for _, adapter in model.placements:
            if not isinstance(adapter, BiasAdapter | LowRankBiasAdapter) or id(adapter) in others:
                continue
            # only blocks are compiled; gates are drawn at their site
            gated = isinstance(adapter, LowRankBiasAdapter) and adapter.gate is not None
            if adapter.site.layer is not None and not gated:
                own, shape = _own(adapter)
                key = (type(adapter), adapter.stacks[own].slots, shape)
                self._groups.setdefault(key, []).append(adapter)
        self.apply()

    def prepare(self, route: Route) -> None:
        """Make and look them up for a pass."""
        for adapters in self._groups.values():
            tables = _tables(adapters)  # [n, S, o]
            first = adapters[0]
            stacked, mix = first.mixed(tables.detach().transpose(0, 1), _own(first)[0], route)
            rows = stacked if mix is None else select(stacked, mix.slot)  # [R, n, o]
            for adapter, table, own in zip(adapters, tables.unbind(0), rows.unbind(1), strict=True):
                adapter.rows = own
                if isinstance(adapter, LowRankBiasAdapter):
                    adapter.table = table

    def apply(self) -> None:
        """Make them before every pass."""
        if self._groups and self not in self._prepared:
            self._prepared.append(self)

    def undo(self) -> None:
        """Leave it to each site."""
        if self in self._prepared:
            self._prepared.remove(self)
        self.forget()

    def forget(self) -> None:
        """Drop those of a pass."""
        for adapters in self._groups.values():
            for adapter in adapters:
                adapter.rows = None
                if isinstance(adapter, LowRankBiasAdapter):
                    adapter.table = None


def _own(adapter: Shift) -> tuple[str, torch.Size]:
    """The parameter that a task has its own of, and the shape of what makes the bias."""
    if isinstance(adapter, BiasAdapter):
        return "v", adapter.get_parameter("v").shape
    return "E", adapter.get_parameter("D").shape


def _tables(adapters: list[Shift]) -> Tensor:
    """The bias of every slot at every site, [n, S, o]; gradients go to what low-rank ones are made of."""
    if isinstance(adapters[0], BiasAdapter):
        return torch.stack([adapter.get_parameter("v").detach() for adapter in adapters])
    e = torch.stack([adapter.get_parameter("E") for adapter in adapters])  # [n, S, r]
    d = torch.cat([adapter.get_parameter("D") for adapter in adapters])  # [n, o, r]
    return torch.bmm(e, _LaidOut.apply(d).transpose(1, 2))


class _LaidOut(torch.autograd.Function):
    """x, whose gradient comes in one piece: one copy, not one for each parameter that is part of it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """x itself."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """Row after row."""
        return grads[0].contiguous()
