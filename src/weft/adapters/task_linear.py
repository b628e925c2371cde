"""A per-task copy of a linear map, stored as a full-rank difference to it."""

from __future__ import annotations

from torch import Tensor, nn

from weft.adapters.adapter import Adapter
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import LINEAR, Site


class TaskLinearAdapter(Adapter):
    """y = (W + ΔW_t)·x + (b + Δb_t), with W and b of the encoder's map, which are frozen.

    ΔW [S, o, i] and Δb [S, o] start at zero, so the initial model equals the base exactly. Training them is
    equivalent to training a copy of the map per task from the base's values (weight decay pulls towards the
    base, not towards zero).

    Args:
        site: a linear map.
        slots: the slots of ΔW and Δb.
    """

    fits = LINEAR
    replaces = True

    def __init__(self, site: Site, slots: Slots) -> None:
        super().__init__(site)
        self.stack("weight", (site.out_width, site.in_width), slots, "weight")
        self.stack("bias", (site.out_width,), slots, "bias")
        for name in ("weight", "bias"):
            nn.init.zeros_(self.get_parameter(name))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, i] → the term [R, L, o]."""
        return self.mapped(x, "weight", route, "bias")

    def weight_delta(self, task: int) -> tuple[Tensor, Tensor]:
        """ΔW [o, i] and Δb [o]."""
        return self.slot("weight", task), self.slot("bias", task)
