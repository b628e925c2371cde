"""The base class of updates with one small core per task between two maps that all tasks share."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from weft.adapters.ranked import RankedAdapter
from weft.core.route import Route
from weft.encoder.sites import LINEAR
from weft.kernels.dispatch import shared_linear
from weft.kernels.dropout import dropped


class CoredAdapter(RankedAdapter):
    """y = W·x + b + up·(z ∘ G_t·(z ∘ down·dropout(x))), z gates if there are any.

    All tasks share down [r, i] and up [o, k]. Only the core G_t [k, r] differs by task, so that both wide
    products are the same for all rows, whatever the number of tasks.

    Attributes:
        by: the name of a parameter that has the slots of the cores.
    """

    fits = LINEAR
    by: ClassVar[str]

    def down(self) -> Tensor:
        """The map down without gates, [r, i]."""
        raise NotImplementedError

    def up(self) -> Tensor:
        """The map up without gates, [o, k]."""
        raise NotImplementedError

    def cores(self) -> Tensor:
        """G of every slot, [S, k, r]."""
        raise NotImplementedError

    def core(self, task: int) -> Tensor:
        """G_t, [k, r]."""
        return self.cores()[self.stacks[self.by].slots.of_task[task]]

    def gated_maps(self) -> tuple[Tensor, Tensor]:
        """The map down and the map up with their gates, [r, i] and [o, k]."""
        return self.down(), self.up()

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, i] → the term [R, L, o]."""
        return self._update(x, route, None)

    def add_to(self, y: Tensor, x: Tensor, route: Route) -> Tensor:
        """y and the term, [R, L, o]."""
        return self._update(x, route, y)

    def _update(self, x: Tensor, route: Route, onto: Tensor | None) -> Tensor:
        low = self.gated(F.linear(dropped(x, self.dropout, self), self.down()), route)  # [R, L, r]
        return shared_linear(self.gated(self.turned(low, route), route), self.up(), onto)

    def turned(self, low: Tensor, route: Route) -> Tensor:
        """G_t·low for each row: [R, L, r] → [R, L, k]."""
        return self.mapped(low, self.by, route, weight=self.cores())  # one core per task, not per row

    def low_rank_delta(self, task: int) -> tuple[Tensor, Tensor]:
        """up·G_t and down, [o, r] and [r, i], gates multiplied in and shut components left out."""
        kept = self.live_for(task)
        down, up = self.gated_maps()
        return (up @ self.core(task)).index_select(1, kept), down.index_select(0, kept)

    def weight_delta(self, task: int) -> tuple[Tensor, None]:
        """ΔW = up·G_t·down, [o, i], gates multiplied in."""
        down, up = self.gated_maps()
        return up @ self.core(task) @ down, None

    def inner_products(self) -> tuple[Tensor, None]:
        """⟨up·G_s·down, up·G_t·down⟩ = Σ (G_s ∘ upᵀup·G_t·down·downᵀ), [T, T]."""
        down, up = self.gated_maps()
        tasks = range(len(self.stacks[self.by].slots.of_task))
        cores = torch.stack([self.core(task) for task in tasks])  # [T, k, r]
        return torch.einsum("spq,tpq->st", cores, (up.T @ up) @ cores @ (down @ down.T)), None
