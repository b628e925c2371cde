"""One more bias vector: BitFit's update (Ben Zaken et al., 2022) with the task as data."""

from __future__ import annotations

from torch import Tensor, nn

from weft.adapters.adapter import Adapter
from weft.encoder.sites import LINEAR, NORM, Site
from weft.routing import Route, Slots


class BiasAdapter(Adapter):
    """y = base(x) + v_t, the slot t by the row's task.

    v [S, o] starts at zero and is added whether or not the base has a bias there. Training v is training
    the bias itself, from the base's value on: the two have the same gradient.

    Args:
        site: a linear map or a norm, with output [R, L, o].
        slots: who has its own v.
    """

    fits = (*LINEAR, *NORM)
    reads_input = False

    def __init__(self, site: Site, slots: Slots) -> None:
        super().__init__(site)
        self.stack("v", (site.out_width,), slots, "bias")
        nn.init.zeros_(self.get_parameter("v"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """The term [R, 1, o]; x is not read."""
        return self.take("v", route)[:, None]

    def merged(self, task: int) -> tuple[None, Tensor]:
        """Δb = v, [o]."""
        return None, self.slot("v", task)
