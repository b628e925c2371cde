"""A per-task function in a small space: TS(x) = V_D·g(V_E·x), as in PALs (eq. 7 and 11)."""

from __future__ import annotations

from torch import Tensor, nn

from weft.adapters.attention import StackedAttention
from weft.adapters.feed_forward import StackedFeedForward
from weft.adapters.lhuc import Amplitude
from weft.adapters.stacked import ACTIVATIONS, STD, StackedLinear
from weft.core.route import Route
from weft.core.stacked import Slots


class Projection(nn.Module):
    """The pair V_E [S, s, d] and V_D [S, d, s], with biases; several layers may share a pair.

    Args:
        width: d.
        size: s, the paper's d_s.
        slots: the slots of the pair.
        seed: the random seed of the initial values.
        place: its name in the model, which the initial values depend on.
        std: the standard deviation of the initial values.
        zero_init: whether V_D starts at zero, so that the function is zero at first; it still has gradients.
    """

    def __init__(
        self,
        width: int,
        size: int,
        slots: Slots,
        seed: int,
        place: str,
        std: float = STD,
        zero_init: bool = False,
    ) -> None:
        super().__init__()
        self.size = size
        self.down = StackedLinear(width, size, slots, seed, f"{place}/down", std)
        self.up = StackedLinear(size, width, slots, seed, f"{place}/up", 0.0 if zero_init else std)


class Projected(nn.Module):
    """TS(x) = a ⊙ f(V_D·g(V_E·x)).

    Args:
        projection: V_E and V_D.
        inside: g: an attention, a feed-forward network, or an activation by name.
        after: f, an activation by name; the code of PALs has a GELU here, which the paper does not mention.
        amplitude: a = 2σ(l), LHUC on the function's result; None: no scaling.
    """

    def __init__(
        self,
        projection: Projection,
        inside: StackedAttention | StackedFeedForward | str,
        after: str = "identity",
        amplitude: Amplitude | None = None,
    ) -> None:
        super().__init__()
        self.project = projection
        self.inside = None if isinstance(inside, str) else inside
        self.activation = inside if isinstance(inside, str) else "identity"
        self.after = after
        self.amplitude = amplitude

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d] → [R, L, d]."""
        small = self.project.down(x, route)  # [R, L, s]
        small = ACTIVATIONS[self.activation](small) if self.inside is None else self.inside(small, route)
        wide = ACTIVATIONS[self.after](self.project.up(small, route))  # [R, L, d]
        return wide if self.amplitude is None else self.amplitude(wide, route)
