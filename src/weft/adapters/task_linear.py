"""A linear map of a task's own: an existing map, moved by a full matrix."""

from __future__ import annotations

from torch import Tensor, nn

from weft.adapters.adapter import Adapter
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import LINEAR, Site


class TaskLinearAdapter(Adapter):
    """y = (W + ΔW_t)·x + (b + Δb_t), W and b the map's own, frozen while the tasks have theirs.

    ΔW [S, o, i] and Δb [S, o] start at zero: training them is training the task's own copy of the map, from
    the base's values on (weight decay draws to the base, not to zero), and the start is the base exactly.

    Args:
        site: a linear map.
        slots: who has its own.
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
