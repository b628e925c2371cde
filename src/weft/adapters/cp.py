"""MORRIS's update of a linear map: the task's slice of a low-rank tensor (CP decomposition)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from weft.adapters.ranked import RankedAdapter
from weft.adapters.stacked import uniform
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import LINEAR, Site
from weft.kernels.joined import Components, joins

if TYPE_CHECKING:
    from weft.core.gate_settings import L0


class CpAdapter(RankedAdapter):
    """y = W·x + b + A·((Cᵀ·x) ∘ B_t ∘ z): the update is slice t of a tensor of CP rank r.

    The slice is Q_t = A·diag(B_t ∘ z)·Cᵀ. All tasks share A [1, o, r], C [1, i, r] and the gates z (if there
    are any); B [S, r] has one row per task. B starts at zero, so the initial model equals the base exactly. A
    and C start uniformly in ±1/√r and ±1/√i, as torch's linear maps do.

    Args:
        site: a linear site, [R, L, i] → [R, L, o].
        shared: the slots of A, C and z.
        per_task: the slots of B.
        rank: r.
        seed: the random seed of the initial values of A and C.
        l0: settings of the gates on the components; None: no gates.
    """

    fits = LINEAR
    along = {"A": (1,), "B": (0,), "C": (1,)}  # noqa: RUF012
    absorbs = ("B",)

    def __init__(
        self, site: Site, shared: Slots, per_task: Slots, rank: int, seed: int, l0: L0 | None = None
    ) -> None:
        super().__init__(site, rank, l0, shared)
        self.stack("A", (site.out_width, rank), shared, "weight")
        self.stack("B", (rank,), per_task, "weight")
        self.stack("C", (site.in_width, rank), shared, "weight")
        for name, width in (("A", rank), ("C", site.in_width)):
            self.start(name, uniform(width), seed, site.key)
        nn.init.zeros_(self.get_parameter("B"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, i] → the term [R, L, o]."""
        return self._update(x, route, None)

    def add_to(self, y: Tensor, x: Tensor, route: Route) -> Tensor:
        """y and the term, [R, L, o]."""
        return self._update(x, route, y)

    def _update(self, x: Tensor, route: Route, onto: Tensor | None) -> Tensor:
        down, up = self.get_parameter("C").transpose(1, 2), self.get_parameter("A")
        return self.pair(x, route, down, up, "B", self._coefficients(), onto=onto)

    def _coefficients(self) -> Tensor:
        """B ∘ z, [S, r]."""
        coefficients, z = self.get_parameter("B"), self.gate_values()
        return coefficients if z is None else coefficients * z

    def can_join(self) -> bool:
        """See `Adapter`: all rows have the same components."""
        a = self.get_parameter("A")
        return joins(1, self.rank, self.site.in_width, a.device)

    def components(self, route: Route) -> Components:
        """See `Adapter`: a row multiplies the components by its task's coefficients."""
        keep = self.of_rows(self._coefficients(), "B", route)
        return Components(keep, self.get_parameter("A")[0], self.get_parameter("C")[0].T)

    def low_rank_delta(self, task: int) -> tuple[Tensor, Tensor]:
        """A·diag(B_t ∘ z) and Cᵀ, [o, k] and [k, i], shut components left out."""
        kept = self.live_for(task)
        up = (self.slot("A", task) * self.absorbed("B", task)).index_select(1, kept)
        return up, self.slot("C", task).index_select(1, kept).T

    def weight_delta(self, task: int) -> tuple[Tensor, None]:
        """ΔW = A·diag(B_t ∘ z)·Cᵀ, [o, i]."""
        return self.slot("A", task) * self.absorbed("B", task) @ self.slot("C", task).T, None

    def inner_products(self) -> tuple[Tensor, None]:
        """⟨Q_s, Q_t⟩ = B·(CᵀC ∘ AᵀA)·Bᵀ, [T, T]: equation 11."""
        a, c = self.slot("A", 0), self.slot("C", 0)
        tasks = range(len(self.stacks["B"].slots.of_task))
        b = torch.stack([self.absorbed("B", task) for task in tasks])
        return b @ ((c.T @ c) * (a.T @ a)) @ b.T, None
