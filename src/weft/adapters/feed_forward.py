"""A small feed-forward network with the task as data."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from weft.adapters.stacked import StackedLinear
from weft.core.route import Route
from weft.core.stacked import Slots


class StackedFeedForward(nn.Module):
    """FFN(x) = W_k·gelu(… gelu(W_1·x + b_1) …) + b_k, the maps of slot t by the row's task.

    Args:
        width: s, of what enters and what leaves.
        inner: the widths between: (306,) for one hidden layer, (252, 252) for two.
        slots: who has its own maps.
        seed: of the start.
        place: where in the model it is.
    """

    def __init__(self, width: int, inner: Sequence[int], slots: Slots, seed: int, place: str) -> None:
        super().__init__()
        widths = [width, *inner, width]
        self.maps = nn.ModuleList(
            StackedLinear(i, o, slots, seed, f"{place}/{n}") for n, (i, o) in enumerate(pairwise(widths))
        )

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, s] → [R, L, s]."""
        for number, one in enumerate(self.maps):
            x = one(x if number == 0 else F.gelu(x), route)
        return x
