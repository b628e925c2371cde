"""Feature-wise linear modulation (FiLM): a scale and a shift, computed from the task's vector."""

from __future__ import annotations

from torch import Tensor, nn

from weft.adapters.stacked import STD, StackedLinear
from weft.core.route import Route
from weft.core.stacked import Slots


class Film(nn.Module):
    """γ, β = the halves of W·z + b; x becomes (1 + γ)⊙x + β.

    γ is the change of a scale, as in the released code of CA-MTL and in the paper on FiLM: near zero it
    leaves x unchanged. W [2n, d] starts at N(0, 0.02²), b at zero. All tasks share W and b; only z differs.

    Args:
        width: d, the width of z.
        size: n, the width of x.
        slots: one slot for all tasks.
        seed: the random seed of the initial values.
        place: its name in the model, which the initial values depend on.
        zero_init: whether W starts at zero, so that γ = β = 0 exactly.
    """

    def __init__(
        self, width: int, size: int, slots: Slots, seed: int, place: str, zero_init: bool = False
    ) -> None:
        super().__init__()
        self.generate = StackedLinear(width, 2 * size, slots, seed, place, 0.0 if zero_init else STD)

    def scale_and_shift(self, z: Tensor, route: Route) -> tuple[Tensor, Tensor]:
        """z [R or 1, d] → γ and β, [R or 1, n] each."""
        both: Tensor = self.generate(z[:, None], route)  # [R or 1, 1, 2n]
        gamma, beta = both[:, 0].chunk(2, dim=-1)
        return gamma, beta

    def forward(self, x: Tensor, z: Tensor, route: Route) -> Tensor:
        """(1 + γ)⊙x + β, x [R, L, n] → [R, L, n], in the dtype of x."""
        gamma, beta = self.scale_and_shift(z, route)
        return ((1 + gamma[:, None]) * x + beta[:, None]).to(x.dtype)
