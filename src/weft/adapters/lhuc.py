"""LHUC: learning hidden unit contributions (Swietojanski and Renals, 2014), with one scale per slot."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weft.adapters.adapter import Adapter
from weft.core.route import Route
from weft.core.stacked import Slots, StackedModule
from weft.encoder.sites import VALUE, Site


class Amplitude(StackedModule):
    """y = x · 2σ(l_t); l [S, d] starts at zero, where 2σ(0) is exactly 1.

    Args:
        width: d.
        slots: the slots of l.
    """

    def __init__(self, width: int, slots: Slots) -> None:
        super().__init__()
        self.stack("l", (width,), slots, "weight")  # weight decay pulls it towards the base
        nn.init.zeros_(self.get_parameter("l"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        amplitude = 2.0 * torch.sigmoid(self.take("l", route))  # [R or 1, d]
        return x * amplitude[:, None].to(x.dtype)


class LhucAdapter(Adapter):
    """v ← v · 2σ(l_t), one amplitude between 0 and 2 per unit; the initial model equals the base exactly.

    Args:
        site: a value site, [R, L, d].
        slots: the slots of l.
    """

    fits = VALUE

    def __init__(self, site: Site, slots: Slots) -> None:
        super().__init__(site)
        self.amplitude = Amplitude(site.out_width, slots)

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        scaled: Tensor = self.amplitude(x, route)
        return scaled
