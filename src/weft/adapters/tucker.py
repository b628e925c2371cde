"""A variant of MORRIS's update with a Tucker decomposition, that is, with a core tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from weft.adapters.cored import CoredAdapter
from weft.adapters.stacked import uniform
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import Site
from weft.kernels.dispatch import row_linear

if TYPE_CHECKING:
    from weft.core.gate_settings import L0


class TuckerAdapter(CoredAdapter):
    """y = W·x + b + A·(z ∘ G_t·(z ∘ Cᵀ·x)), G_t = Σ_k B_t[k]·G[k]: slice t of a tensor with a core.

    All tasks share A [1, o, r], C [1, i, r] and G [1, k, r, r]; B [S, k] has one row per task. With k = r and
    G[j] the matrix that is 1 at (j, j) only, it is the CP update. B starts at zero, so the initial model
    equals the base; A, C and G start as torch's linear maps do. Gates, if there are any, are on the map's r
    directions, where most parameters are; one gate shuts a direction of both A and C.

    Args:
        site: a linear site, [R, L, i] → [R, L, o].
        shared: the slots of A, C, G and z.
        per_task: the slots of B.
        rank: r, the rank of the map's two sides.
        task_rank: k, the rank of the tasks' side.
        seed: the random seed of the initial values of A, C and G.
        l0: settings of the gates on the directions; None: no gates.
    """

    by = "B"
    along = {"A": (1,), "C": (1,), "G": (1, 2)}  # noqa: RUF012
    absorbs = ("A", "C")

    def __init__(
        self,
        site: Site,
        shared: Slots,
        per_task: Slots,
        rank: int,
        task_rank: int,
        seed: int,
        l0: L0 | None = None,
    ) -> None:
        super().__init__(site, rank, l0, shared)
        self.stack("A", (site.out_width, rank), shared, "weight")
        self.stack("B", (task_rank,), per_task, "weight")
        self.stack("C", (site.in_width, rank), shared, "weight")
        self.stack("G", (task_rank, rank, rank), shared, "weight")
        for name, width in (("A", rank), ("C", site.in_width), ("G", rank)):
            self.start(name, uniform(width), seed, site.key)
        nn.init.zeros_(self.get_parameter("B"))

    def down(self) -> Tensor:
        """Cᵀ, [r, i]."""
        return self.get_parameter("C")[0].T

    def up(self) -> Tensor:
        """A, [o, r]."""
        return self.get_parameter("A")[0]

    def cores(self) -> Tensor:
        """G of every task, [S, r, r]."""
        return torch.einsum("sk,kpq->spq", self.get_parameter("B"), self.get_parameter("G")[0])

    def core(self, task: int) -> Tensor:
        """G_t, [r, r]."""
        return torch.einsum("k,kpq->pq", self.slot("B", task), self.slot("G", task))

    def gated_maps(self) -> tuple[Tensor, Tensor]:
        """Cᵀ and A with the gates of their directions."""
        return self.absorbed("C", 0).T, self.absorbed("A", 0)

    def turned(self, low: Tensor, route: Route) -> Tensor:
        """See `CoredAdapter`."""
        if route.kernels == "reference":  # a row's core must not depend on how many tasks there are
            core = torch.einsum("sk,kpq->spq", self.take("B", route), self.get_parameter("G")[0])
            return row_linear(low, core)
        return super().turned(low, route)
