"""Computes and looks up the per-task biases of all sites before the first block."""

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
    """Looks up the biases of a pass's rows, with one look-up for all sites of the same form.

    Low-rank biases are computed first, D·E_t for every slot: [n, S, r] · [n, r, o]. One site's product, with
    four components, takes as long as one for all sites. And a look-up inside a block keeps the compiler from
    its best kernel for a norm (H200, 288×64, BERT-base: 67 µs instead of 34).

    Args:
        model: the model.
        but: adapters whose biases are already part of another product.
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
                name, shape = _task_parameter(adapter)
                key = (type(adapter), adapter.stacks[name].slots, shape)
                self._groups.setdefault(key, []).append(adapter)
        self.apply()

    def prepare(self, route: Route) -> None:
        """Compute and look up the biases of a pass."""
        for adapters in self._groups.values():
            tables = _tables(adapters)  # [n, S, o]
            first = adapters[0]
            stacked, mix = first.mixed(tables.detach().transpose(0, 1), _task_parameter(first)[0], route)
            rows = stacked if mix is None else select(stacked, mix.slot)  # [R, n, o]
            for adapter, table, bias_rows in zip(adapters, tables.unbind(0), rows.unbind(1), strict=True):
                adapter.rows = bias_rows
                if isinstance(adapter, LowRankBiasAdapter):
                    adapter.table = table

    def apply(self) -> None:
        """Compute them before every pass."""
        if self._groups and self not in self._prepared:
            self._prepared.append(self)

    def undo(self) -> None:
        """Let each site look up its bias."""
        if self in self._prepared:
            self._prepared.remove(self)
        self.forget()

    def forget(self) -> None:
        """Drop the biases of a pass."""
        for adapters in self._groups.values():
            for adapter in adapters:
                adapter.rows = None
                if isinstance(adapter, LowRankBiasAdapter):
                    adapter.table = None


def _task_parameter(adapter: Shift) -> tuple[str, torch.Size]:
    """Return the name of the per-task parameter, and the shape that adapters of a group have in common."""
    if isinstance(adapter, BiasAdapter):
        return "v", adapter.get_parameter("v").shape
    return "E", adapter.get_parameter("D").shape


def _tables(adapters: list[Shift]) -> Tensor:
    """Return the bias of every slot at every site, [n, S, o]; low-rank biases have gradients."""
    if isinstance(adapters[0], BiasAdapter):
        return torch.stack([adapter.get_parameter("v").detach() for adapter in adapters])
    e = torch.stack([adapter.get_parameter("E") for adapter in adapters])  # [n, S, r]
    d = torch.cat([adapter.get_parameter("D") for adapter in adapters])  # [n, o, r]
    return torch.bmm(e, _LaidOut.apply(d).transpose(1, 2))


class _LaidOut(torch.autograd.Function):
    """The identity, with a contiguous gradient: one copy instead of one per parameter of the stack."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return x."""
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """Return the gradient in contiguous memory."""
        return grads[0].contiguous()
