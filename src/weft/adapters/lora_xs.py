"""LoRA-XS: one small matrix per task between the singular vectors of the map (Bałazy et al., 2024)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.adapters.cored import CoredAdapter
from weft.adapters.svd import top_singular
from weft.core.stacked import Slots
from weft.encoder.sites import Site


class LoraXsAdapter(CoredAdapter):
    """y = W·x + b + s·B·R_t·A·dropout(x), B = U·diag(σ) and A = Vᵀ of W's r largest singular values.

    A [1, r, i] and B [1, o, r] are constant and the same for all tasks; R [S, r, r] has one matrix per task.
    R starts at zero, so the initial model equals the base exactly (the paper draws it from N(0, 1e-5²)).
    A and B are saved with the model: a different machine may round a decomposition differently, and vectors
    of nearly equal singular values would then turn into each other.

    Args:
        site: a linear site, [R, L, i] → [R, L, o].
        shared: the slots of A and B.
        per_task: the slots of R.
        rank: r.
        scale: s.
        dropout: dropout probability of x, in training.
    """

    by = "R"
    along = {"A": (0,), "B": (1,), "R": (0, 1)}  # noqa: RUF012  (declared as ClassVar in RankedAdapter)

    def __init__(
        self, site: Site, shared: Slots, per_task: Slots, rank: int, scale: float, dropout: float
    ) -> None:
        super().__init__(site, rank, None, shared)
        self.scale = scale
        self.dropout = dropout
        self.stack("A", (rank, site.in_width), shared, "weight", constant=True)
        self.stack("B", (site.out_width, rank), shared, "weight", constant=True)
        self.stack("R", (rank, rank), per_task, "weight")
        for name in ("A", "B", "R"):
            nn.init.zeros_(self.get_parameter(name))

    @torch.no_grad()
    def bind_map(self, module: nn.Linear) -> None:
        """Compute A and B from the site's rows of the map."""
        if module.weight.is_meta:
            return
        index, parts = self.site.part
        left, values, right = top_singular(module.weight.chunk(parts)[index], self.rank)
        self.get_parameter("A")[0].copy_(right)
        self.get_parameter("B")[0].copy_(left * values)

    def down(self) -> Tensor:
        """A, [r, i]."""
        return self.get_parameter("A")[0]

    def up(self) -> Tensor:
        """B, [o, r]."""
        return self.get_parameter("B")[0]

    def cores(self) -> Tensor:
        """s·R of every task, [S, r, r]."""
        cores = self.get_parameter("R")
        return cores if self.scale == 1.0 else cores * self.scale
