"""An additional bias vector per slot: BitFit's update (Ben Zaken et al., 2022)."""

from __future__ import annotations

from torch import Tensor, nn

from weft.adapters.adapter import Adapter
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import LINEAR, NORM, Site
from weft.kernels.dispatch import add_rows
from weft.kernels.joined import Components, joins, own_slot


class BiasAdapter(Adapter):
    """y = base(x) + v_t, with the slot t of the row's task.

    v [S, o] starts at zero and is added whether or not the base has a bias there. Training v is equivalent to
    training the base's bias from its pretrained value: the two have the same gradient.

    Args:
        site: a linear map or a norm, with output [R, L, o].
        slots: the slots of v.

    Attributes:
        rows: v of each row of this pass, [R, o], if it was looked up together with those of other sites.
    """

    fits = (*LINEAR, *NORM)
    reads_input = False

    def __init__(self, site: Site, slots: Slots) -> None:
        super().__init__(site)
        self.rows: Tensor | None = None
        self.stack("v", (site.out_width,), slots, "bias")
        nn.init.zeros_(self.get_parameter("v"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """The term [R, 1, o]; x is not read."""
        return self.take("v", route)[:, None]

    def add_to(self, y: Tensor, x: Tensor, route: Route) -> Tensor:
        """y and the term, [R, L, o]."""
        stacked, mix = self.mixed(self.get_parameter("v"), "v", route)
        return add_rows(y, stacked, mix, self.rows)

    def can_join(self) -> bool:
        """See `Adapter`: there is one component per slot."""
        v = self.get_parameter("v")
        return joins(v.size(0), 1, self.site.in_width, v.device)

    def components(self, route: Route) -> Components:
        """See `Adapter`: a row keeps the component of its slot."""
        stacked, mix = self.mixed(self.get_parameter("v"), "v", route)
        keep = stacked.new_ones(1, 1) if mix is None else own_slot(mix.slot, len(stacked), stacked.dtype)
        return Components(keep, stacked.T)

    def weight_delta(self, task: int) -> tuple[None, Tensor]:
        """Δb = v, [o]."""
        return None, self.slot("v", task)
