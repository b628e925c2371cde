"""Adapters that apply tables: tensors of each slot that are computed from the parameters, not stored.

A table does not depend on the batch. The tables of all sites are computed together, once per pass and before
the first block: [n, S, …] for n sites. Computed at each site, they would be as many small products and sums
as there are sites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from weft.adapters.adapter import Adapter
from weft.core.route import Route
from weft.core.stacked import StackedModule
from weft.kernels.dispatch import Mix, select

Tables = tuple[Tensor, ...]

Pick = Callable[[StackedModule, str], Tensor]
"""Returns a parameter by its name: of all slots, of one slot, or of each row of a batch, [S, …]."""


class DerivedAdapter(Adapter):
    """An adapter with tables [S, …], whose slots are those of the parameter `by`.

    Attributes:
        by: the name of the parameter whose slots the tables have.
        sources: the names of the parameters that the tables are computed from.
        vectors: the indices of the tables that are looked up by row; the others are maps.
        tables: the tables of this pass, if an engine holds them here; see
            `weft.acceleration.attached_tables`.
        rows: the vectors of each row of this pass, [R, …] or [1, …], if an engine looked them up.
        number: its number among the adapters of the model that have tables.
    """

    by: ClassVar[str]
    sources: ClassVar[tuple[str, ...]] = ()
    vectors: ClassVar[tuple[int, ...]] = ()
    tables: Tables | None = None
    rows: Tables | None = None
    number: int = -1

    def derive(self, *sources: Tensor) -> Tables:
        """Compute the tables, in float32, from parameters […, S, …] with any dimensions before the slots'.

        Args:
            sources: the parameters that `sources` names; those of one slot for all tasks are […, 1, …].
        """
        raise NotImplementedError

    @classmethod
    def derive_all(cls, adapters: Sequence[DerivedAdapter], pick: Pick) -> list[Tables]:
        """Return the tables of each of several adapters of one form."""
        first = adapters[0]
        if len(adapters) == 1:
            return [first.derive(*(pick(first, name) for name in first.sources))]
        stacked = [torch.stack([pick(a, name) for a in adapters]) for name in first.sources]
        return list(zip(*(table.unbind(0) for table in first.derive(*stacked)), strict=True))

    def fixed(self, tables: Tables) -> Tables:
        """Return the tables for passes between which no parameter changes; more may be added at the end.

        What costs too much to compute in every pass belongs here: an engine calls it once.
        """
        return tables

    def form(self) -> tuple[object, ...]:
        """What adapters have in common whose tables can be computed together."""
        shapes = tuple((name, self.get_parameter(name).shape) for name in self.sources)
        return type(self), self.slot_holder().stacks[self.by].slots, shapes

    def slot_holder(self) -> StackedModule:
        """Return the module that has the parameter `by`."""
        return self

    def map_shapes(self) -> tuple[tuple[int, int, int], ...]:
        """Return the shapes [S, o, i] of the tables that are maps: they may gain if rows are sorted."""
        return ()

    def slot_tables(self, route: Route) -> tuple[Tables, Mix | None]:
        """Return the tables and each row's slot, as `StackedModule.mixed` does."""
        holder = self.slot_holder()
        tables = self.tables
        if tables is None and not torch.compiler.is_compiling():
            # compiled, the number would be a constant, and each block a graph of its own
            prepared = route.tables.get(self.number)
            if prepared is not None and route.only is not None:
                return prepared, None
            tables = prepared
        if tables is None and route.kernels == "reference":
            return self._row_tables(route)
        if tables is None:
            tables = derive([self], whole)[0]
        mixed = [holder.mixed(table, self.by, route) for table in tables]
        return tuple(table for table, _ in mixed), mixed[0][1]

    def row_vectors(self, route: Route, of_slots: tuple[Tables, Mix | None] | None = None) -> Tables:
        """Return the tables that are vectors for each row, [R, …], or [1, …] if all rows use one slot.

        Args:
            route: the batch's route.
            of_slots: the result of `slot_tables`, if it is known already.
        """
        if self.rows is not None:
            return self.rows
        tables, mix = self.slot_tables(route) if of_slots is None else of_slots
        chosen = (tables[index] for index in self.vectors)
        return tuple(table if mix is None else select(table, mix.slot) for table in chosen)

    def task_tables(self, task: int) -> Tables:
        """Return the tables of one task, without the dimension of slots."""
        return tuple(table[0] for table in derive([self], _one_task(task))[0])

    def _row_tables(self, route: Route) -> tuple[Tables, Mix | None]:
        """Compute the tables from the rows' parameters: no bit depends on the other tasks of the model."""
        tables = derive([self], lambda module, name: module.take(name, route))[0]
        if len(tables[0]) == 1:
            return tables, None
        return tables, Mix(torch.arange(route.rows, device=route.task.device), setting="reference")


def derive(adapters: Sequence[DerivedAdapter], pick: Pick) -> list[Tables]:
    """Call `derive_all` in float32: autocast would round its products to half precision."""
    device = next(adapters[0].parameters()).device
    with torch.autocast(device.type, enabled=False):
        return type(adapters[0]).derive_all(adapters, pick)


class DerivedTables:
    """Computes the tables of all adapters of a model that have some, before the first block.

    Args:
        modules: the modules of the model's adapters.

    Attributes:
        groups: the adapters, those of one form together.
    """

    def __init__(self, modules: Iterable[object]) -> None:
        by_form: dict[tuple[object, ...], list[DerivedAdapter]] = {}
        number = 0
        for module in modules:
            if isinstance(module, DerivedAdapter):
                module.number = number
                number += 1
                by_form.setdefault(module.form(), []).append(module)
        self.groups = list(by_form.values())

    def prepare(self, route: Route) -> None:
        """Compute the tables of a pass, and put them into `route.tables`."""
        if route.kernels == "reference" or torch.compiler.is_compiling():
            return  # computed at each site
        pick = whole if route.only is None else _one_task(route.only)
        for adapters in self.groups:
            for adapter, tables in zip(adapters, derive(adapters, pick), strict=True):
                route.tables[adapter.number] = tables

    def forget(self) -> None:
        """Do nothing: the tables are stored in the route."""


def whole(module: StackedModule, name: str) -> Tensor:
    """The parameter of all slots, [S, …]."""
    return module.get_parameter(name)


def _one_task(task: int) -> Pick:
    """The parameters of one task, [1, …]."""

    def pick(module: StackedModule, name: str) -> Tensor:
        slot = module.stacks[name].slots.of_task[task]
        return module.get_parameter(name)[slot : slot + 1]

    return pick
