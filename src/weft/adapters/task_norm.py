"""A layer norm of a task's own: the affine of an existing norm, moved."""

from __future__ import annotations

from torch import Tensor, nn

from weft.adapters.adapter import Adapter
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import NORM, Site


class TaskNormAdapter(Adapter):
    """y = x̂·(w + Δw_t) + (b + Δb_t), w and b the norm's own, frozen while the tasks have theirs.

    Δw and Δb [S, d] start at zero: training them is training the task's own copy of w and b, from the base's
    values on, and the start is the base to the last bit. Where the base has no b (ModernBERT), there is one
    now.

    Args:
        site: a norm.
        slots: who has its own.
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
