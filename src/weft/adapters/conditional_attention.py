"""Conditional attention: adds a block-diagonal matrix, computed from the task, to the scores (CA-MTL)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from weft.adapters.adapter import Adapter
from weft.adapters.film import Film
from weft.adapters.stacked import STD
from weft.adapters.task_embedding import Condition
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import Site
from weft.errors import WeftError


def block_size(length: int, blocks: int) -> int:
    """Return b = ⌈L/N⌉, the side of the blocks; the last block is smaller if L is not a multiple."""
    return math.ceil(length / blocks)


class ConditionalAttention(Adapter):
    """scores = q·kᵀ/√d_head + M(z) + mask, M(z) = A'_1 ⊕ … ⊕ A'_N, A'_n = (1 + γ(z))⊙A_n + β(z).

    M is the same for all heads, and zero between blocks: it favours some positions of a block, and forbids
    none. A [L, b] stacks the A_n, so M[i, j] = A'[i, j mod b] if i and j are in one block, else 0. A row of
    l < L tokens uses M[:l, :l]. Pairs that the encoder's mask excludes (padding, the windows of ModernBERT's
    local layers) stay excluded: M is added before the mask.

    A starts at zero as in the released code, or at random as in the paper. γ and β are vectors [b], the same
    for every row of a block, as in the code; or matrices [b, b], of the size (L/N)² that the paper prints.

    Args:
        site: `scores` of one block.
        condition: z'.
        film: γ and β, of b or b² numbers.
        slots: one slot for all tasks.
        length: L, the longest row.
        block: b.
        seed: the random seed of A's initial values.
        random: whether A starts at N(0, 0.02²) instead of zero.
    """

    fits = ("scores",)
    reads_input = False

    def __init__(
        self,
        site: Site,
        condition: Condition,
        film: Film,
        slots: Slots,
        length: int,
        block: int,
        seed: int,
        random: bool = False,
    ) -> None:
        super().__init__(site)
        self.condition = condition
        self.film = film
        self.length = length
        self.block = block
        # for the longest row, not for the batch's length: a compiled block would otherwise specialize on the
        # number of repeats, and be recompiled when it changes
        self.repeats = math.ceil(length / block)
        self.stack("a", (length, block), slots, "weight")
        if random:
            self.start("a", lambda t, g: t.normal_(0.0, STD, generator=g), seed, site.key)
        else:
            nn.init.zeros_(self.get_parameter("a"))

    def forward(self, x: Tensor, route: Route) -> Tensor:
        """x [R, L, d], of which only the length is read → M [R or 1, 1, L, L]."""
        return self.matrix(self.condition(route), route, x.size(1))[:, None]

    def matrix(self, z: Tensor, route: Route, length: int) -> Tensor:
        """M(z), z [R or 1, d] → [R or 1, l, l]."""
        if length > self.length:
            raise WeftError(
                f"rows of {length} tokens; this conditional attention was built for at most {self.length}"
            )
        gamma, beta = self._to_length(self.film.scale_and_shift(z, route), length)
        a = self.take("a", route)[:, :length]  # [1, l, b]
        modulated = (1 + gamma) * a + beta  # [R or 1, l, b]
        # repeat instead of indexing, because its backward adds in a fixed order
        wide = modulated.repeat(1, 1, self.repeats)[:, :, :length]  # [R or 1, l, l]
        place = torch.arange(length, device=a.device) // self.block
        return torch.where(place[:, None] == place, wide, 0.0)

    def _to_length(self, both: tuple[Tensor, Tensor], length: int) -> tuple[Tensor, Tensor]:
        """γ and β for every row of M: [R or 1, 1 or l, b]."""
        gamma, beta = both
        if gamma.size(-1) == self.block:  # for b = 1 vectors and matrices are the same
            return gamma[:, None], beta[:, None]
        square = (self.block, self.block)
        gamma, beta = (x.unflatten(-1, square).repeat(1, self.repeats, 1)[:, :length] for x in (gamma, beta))
        return gamma, beta
