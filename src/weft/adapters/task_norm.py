"""A per-task copy of a layer norm, stored as a difference to its weight and bias."""

from __future__ import annotations

from torch import Tensor, nn

from weft.adapters.adapter import Adapter
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import NORM, Site


class TaskNormAdapter(Adapter):
    """y = x̂·(w + Δw_t) + (b + Δb_t), with w and b of the encoder's norm, which are frozen.

    Δw and Δb [S, d] start at zero, so the initial model is bit-identical to the base. Training them is
    equivalent to training a copy of w and b per task from the base's values. If the base has no b
    (ModernBERT), this adds one.

    Args:
        site: a norm.
        slots: the slots of Δw and Δb.
    """

    fits = NORM
    replaces = True

    def __init__(self, site: Site, slots: Slots) -> None:
        super().__init__(site)
        for name in ("weight", "bias"):
            self.stack(name, (site.out_width,), slots, "norm")
            nn.init.zeros_(self.get_parameter(name))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x̂ [R, L, d] → the term x̂·Δw + Δb, [R, L, d]."""
        return x * self.take("weight", route)[:, None] + self.take("bias", route)[:, None]

    def weight_delta(self, task: int) -> tuple[Tensor, Tensor]:
        """Δw and Δb, [d] each."""
        return self.slot("weight", task), self.slot("bias", task)
