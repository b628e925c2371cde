"""MORRIS's update of biases: a low-rank matrix with one column per task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from weft.adapters.ranked import RankedAdapter
from weft.adapters.stacked import uniform
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import LINEAR, NORM, Site
from weft.kernels.dispatch import add_rows
from weft.kernels.joined import Components, joins

if TYPE_CHECKING:
    from weft.core.gate_settings import L0


class LowRankBiasAdapter(RankedAdapter):
    """y = base(x) + D·(E_t ∘ z): column t of a matrix of biases [o, T] of rank r.

    All tasks share D [1, o, r], which starts uniformly in ±1/√r, and the gates z, if there are any. E [S, r]
    has one row per task and starts at zero, so the initial model equals the base exactly.

    Args:
        site: a linear map or a norm, with output [R, L, o].
        shared: the slots of D and z.
        per_task: the slots of E.
        rank: r.
        seed: the random seed of D's initial values.
        l0: settings of the gates on the components; None: no gates.

    Attributes:
        table: the bias of every slot, [S, o], if it was computed for this pass with those of other sites.
        rows: the bias of each row, [R, o], if it was looked up for this pass with those of other sites.
    """

    fits = (*LINEAR, *NORM)
    reads_input = False
    along = {"D": (1,), "E": (0,)}  # noqa: RUF012
    absorbs = ("E",)
    setting = "bias_rank_pattern"

    def __init__(
        self, site: Site, shared: Slots, per_task: Slots, rank: int, seed: int, l0: L0 | None = None
    ) -> None:
        super().__init__(site, rank, l0, shared)
        self.table: Tensor | None = None
        self.rows: Tensor | None = None
        self.stack("D", (site.out_width, rank), shared, "weight")
        self.stack("E", (rank,), per_task, "weight")
        self.start("D", uniform(rank), seed, site.key)
        nn.init.zeros_(self.get_parameter("E"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """The term [R, 1, o]; x is not read."""
        coefficients = self.gated(self.take("E", route), route)  # [R, r] or [1, r]
        return (coefficients @ self.take("D", route)[0].T)[:, None]

    def add_to(self, y: Tensor, x: Tensor, route: Route) -> Tensor:
        """y and the term, [R, L, o]."""
        if self.table is None:
            return super().add_to(y, x, route)
        stacked, mix = self.mixed(self.table, "E", route)
        return add_rows(y, stacked, mix, self.rows)

    def can_join(self) -> bool:
        """See `Adapter`: all rows have the same few components."""
        d = self.get_parameter("D")
        return joins(1, self.rank, self.site.in_width, d.device)

    def components(self, route: Route) -> Components:
        """See `Adapter`: a row multiplies the components by its task's coefficients."""
        return Components(self.gated(self.take("E", route), route), self.take("D", route)[0])

    def weight_delta(self, task: int) -> tuple[None, Tensor]:
        """Δb = D·(E_t ∘ z), [o]."""
        return None, self.slot("D", task) @ self.absorbed("E", task)

    def inner_products(self) -> tuple[None, Tensor]:
        """⟨D·E_s, D·E_t⟩ = E·(DᵀD)·Eᵀ, [T, T]."""
        d = self.slot("D", 0)
        tasks = range(len(self.stacks["E"].slots.of_task))
        e = torch.stack([self.absorbed("E", task) for task in tasks])
        return None, e @ (d.T @ d) @ e.T
