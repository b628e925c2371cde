"""Holds the tables of a pass on the adapters, where compiled blocks read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weft.adapters.derived import DerivedAdapter, DerivedTables, Tables, derive, whole
from weft.core.route import Route
from weft.kernels.dispatch import select

if TYPE_CHECKING:
    from weft.model.model import Model


class AttachedTables:
    """Computes the tables of adapters (`weft.adapters.derived`) and looks up their vectors for a pass's rows.

    A compiled block finds them as attributes of its adapters: read from the route by the adapter's number,
    each block would be a graph of its own. Vectors are looked up for all sites of one form at once, because a
    look-up inside a block keeps the compiler from its best kernels (see `BiasTables`).

    Args:
        model: the model.
        once: whether the parameters do not change while this patch is applied: tables are then computed in
            the first pass and kept, maps in the dtype that they are used in.
        attach: whether to hold them at all; if not, each block computes its own. Blocks that are recomputed
            in the backward pass would read those of a later pass.
    """

    def __init__(self, model: Model, once: bool, attach: bool = True) -> None:
        self._prepared = model.preparing
        self._eager = [entry for entry in self._prepared if isinstance(entry, DerivedTables)]
        self._groups = [adapters for entry in self._eager for adapters in entry.groups]
        self._once, self._attach = once, attach
        self._kept: list[tuple[list[Tables], list[Tensor]]] | None = None
        self.apply()

    def prepare(self, route: Route) -> None:
        """Put the tables and the rows' vectors on the adapters."""
        computed = self._kept
        if computed is None:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not self._once):
                computed = [self._computed(adapters) for adapters in self._groups]
            self._kept = computed if self._once else None
        for adapters, (tables, vectors) in zip(self._groups, computed, strict=True):
            holder, by = adapters[0].slot_holder(), adapters[0].by
            rows: list[tuple[Tensor, ...]] = []
            for stacked in vectors:  # [S, n, …]
                chosen, mix = holder.mixed(stacked, by, route)
                rows.append((chosen if mix is None else select(chosen, mix.slot)).unbind(1))
            for number, adapter in enumerate(adapters):
                adapter.tables = tables[number]
                adapter.rows = tuple(of_sites[number] for of_sites in rows) if rows else None

    def _computed(self, adapters: list[DerivedAdapter]) -> tuple[list[Tables], list[Tensor]]:
        """The tables of each adapter, and those that are vectors, stacked over the adapters: [S, n, …]."""
        tables = derive(adapters, whole)
        vectors = [torch.stack([of_site[i] for of_site in tables], 1) for i in adapters[0].vectors]
        if self._once:
            fixed = [adapter.fixed(of_site) for adapter, of_site in zip(adapters, tables, strict=True)]
            tables = [tuple(_rounded(table).contiguous() for table in of_site) for of_site in fixed]
        return tables, vectors

    def apply(self) -> None:
        """Compute them before every pass, here instead of for the route."""
        for entry in self._eager:
            if entry in self._prepared:
                self._prepared.remove(entry)
        if self._groups and self._attach and self not in self._prepared:
            self._prepared.insert(0, self)

    def undo(self) -> None:
        """Compute them for the route again."""
        if self in self._prepared:
            self._prepared.remove(self)
        for entry in self._eager:
            if entry not in self._prepared:
                self._prepared.insert(0, entry)
        self.forget()

    def forget(self) -> None:
        """Take the tables off the adapters; those that are kept stay here, where graphs read them."""
        for adapters in self._groups:
            for adapter in adapters:
                adapter.tables = adapter.rows = None


def _rounded(table: Tensor) -> Tensor:
    """Round a map to the dtype that autocast would round it to at each use."""
    device = table.device.type
    if table.dim() < 3 or not torch.is_autocast_enabled(device):
        return table
    return table.to(torch.get_autocast_dtype(device))
