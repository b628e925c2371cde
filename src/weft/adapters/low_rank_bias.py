"""A low-rank matrix of biases, a column a task: MORRIS, its biases' part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from weft.adapters.ranked import RankedAdapter
from weft.adapters.stacked import uniform
from weft.encoder.sites import LINEAR, NORM, Site
from weft.routing import Route, Slots

if TYPE_CHECKING:
    from weft.l0_settings import L0


class LowRankBiasAdapter(RankedAdapter):
    """y = base(x) + D·(E_t ∘ z): column t of a matrix of biases [o, T] of rank r.

    D [1, o, r] belongs to all tasks and starts in ±1/√r, E [S, r] to each and starts at zero: the start is
    exactly the base. The gates z, if there are any, belong to all tasks.

    Args:
        site: a linear map or a norm, with output [R, L, o].
        shared: the slots of D and z.
        own: the slots of E.
        rank: r.
        seed: of D's start.
        l0: gates on the components, if there are to be any.
    """

    fits = (*LINEAR, *NORM)
    reads_input = False
    along = {"D": (1,), "E": (0,)}  # noqa: RUF012
    absorbs = ("E",)
    setting = "bias_rank_pattern"

    def __init__(
        self, site: Site, shared: Slots, own: Slots, rank: int, seed: int, l0: L0 | None = None
    ) -> None:
        super().__init__(site, rank, l0, shared)
        self.stack("D", (site.out_width, rank), shared, "weight")
        self.stack("E", (rank,), own, "weight")
        self.start("D", uniform(rank), seed, site.key)
        nn.init.zeros_(self.get_parameter("E"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """The term [R, 1, o]; x is not read."""
        coefficients = self.gated(self.take("E", route), route)  # [R, r] or [1, r]
        return (coefficients @ self.take("D", route)[0].T)[:, None]

    def merged(self, task: int) -> tuple[None, Tensor]:
        """Δb = D·(E_t ∘ z), [o]."""
        return None, self.slot("D", task) @ self.absorbed("E", task)

    def inner_products(self) -> tuple[None, Tensor]:
        """⟨D·E_s, D·E_t⟩ = E·(DᵀD)·Eᵀ, [T, T]."""
        d = self.slot("D", 0)
        tasks = range(len(self.stacks["E"].slots.of_task))
        e = torch.stack([self.absorbed("E", task) for task in tasks])
        return None, e @ (d.T @ d) @ e.T
