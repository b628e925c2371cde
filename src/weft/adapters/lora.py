"""LoRA: a low-rank update of a linear map (Hu et al., 2021)."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional as F

from weft.adapters.adapter import Adapter
from weft.encoder.sites import LINEAR, Site
from weft.routing import Route, Slots, row_linear


class LoraAdapter(Adapter):
    """y = W·x + b + (α/r)·B_t·A_t·dropout(x), the slot t by the row's task.

    A [S, r, i] starts kaiming-uniform, B [S, o, r] at zero, so that the start is exactly the base.

    Args:
        site: a linear site, [R, L, i] → [R, L, o].
        slots: who has its own A and B.
        rank: r.
        alpha: α; the update is scaled by α/r.
        dropout: on x, in training.
        seed: of A's start.
    """

    fits = LINEAR

    def __init__(self, site: Site, slots: Slots, rank: int, alpha: float, dropout: float, seed: int) -> None:
        super().__init__(site)
        self.scale = alpha / rank
        self.dropout = dropout
        self.stack("A", (rank, site.in_width), slots, "weight")
        self.stack("B", (site.out_width, rank), slots, "weight")
        self.start("A", lambda t, g: nn.init.kaiming_uniform_(t, math.sqrt(5), generator=g), seed, site.key)
        nn.init.zeros_(self.get_parameter("B"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, i] → the term [R, L, o]."""
        x = F.dropout(x, self.dropout, self.training)
        low = row_linear(x, self.take("A", route))  # [R, L, r]
        return row_linear(low, self.take("B", route)) * self.scale  # [R, L, o]

    def merged(self, task: int) -> tuple[Tensor, None]:
        """ΔW = (α/r)·B·A, [o, i]."""
        return self.slot("B", task) @ self.slot("A", task) * self.scale, None
