"""A small feed-forward network with stacked parameters, for batches of several tasks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from weft.adapters.stacked import StackedLinear
from weft.core.route import Route
from weft.core.stacked import Slots


class StackedFeedForward(nn.Module):
    """FFN(x) = W_k·gelu(… gelu(W_1·x + b_1) …) + b_k, with the maps of the row's slot.

    Args:
        width: s, the width of input and output.
        inner: the hidden widths: (306,) for one hidden layer, (252, 252) for two.
        slots: the slots of the maps.
        seed: the random seed of the initial values.
        place: its name in the model, which the initial values depend on.
    """

    def __init__(self, width: int, inner: Sequence[int], slots: Slots, seed: int, place: str) -> None:
        super().__init__()
        widths = [width, *inner, width]
        self.maps = nn.ModuleList(
            StackedLinear(i, o, slots, seed, f"{place}/{n}") for n, (i, o) in enumerate(pairwise(widths))
        )

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, s] → [R, L, s]."""
        for number, linear in enumerate(self.maps):
            x = linear(x if number == 0 else F.gelu(x), route)
        return x
