"""Conditional attention: a block-diagonal matrix on the attention scores that the task makes (CA-MTL)."""

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
    """b = ⌈L/N⌉, the side of the blocks; the last one is cut where they do not come out even."""
    return math.ceil(length / blocks)


class ConditionalAttention(Adapter):
    """scores = q·kᵀ/√d_head + M(z) + mask, M(z) = A'_1 ⊕ … ⊕ A'_N, A'_n = (1 + γ(z))⊙A_n + β(z).

    M is the same for all heads, and zero between blocks: it favours some places of a block over others, and
    forbids none. Row i of all A_n one below the other is A[i], [L, b]; so M[i, j] = A'[i, j mod b] if i and j
    lie in one block, else 0. A row of l < L tokens uses M[:l, :l]. Where a family's own mask leaves pairs out
    (padding, the windows of ModernBERT's local layers), they stay out: M is added before it.

    A starts at zero as in the released code, or at random as the paper has it. γ and β are vectors [b], the
    same for every row of a block, as in the code; or matrices [b, b], as the paper prints their size (L/N)².

    Args:
        site: `scores` of one block.
        condition: z'.
        film: γ and β, of b or b² numbers.
        slots: one for all tasks.
        length: L, the longest row.
        block: b.
        seed: of A's start.
        random: whether A starts at N(0, 0.02²) and not at zero.
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
        # of the longest row, whatever a batch's length: a compiled block would count how often a block fits
        # into its length, and be compiled anew for rows of one block and of several
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
        # by repetition and not by index: its backward adds in a fixed order
        wide = modulated.repeat(1, 1, self.repeats)[:, :, :length]  # [R or 1, l, l]
        place = torch.arange(length, device=a.device) // self.block
        return torch.where(place[:, None] == place, wide, 0.0)

    def _to_length(self, both: tuple[Tensor, Tensor], length: int) -> tuple[Tensor, Tensor]:
        """γ and β for every row of M: [R or 1, 1 or l, b]."""
        gamma, beta = both
        if gamma.size(-1) == self.block:  # blocks of one place have vectors and matrices of one number
            return gamma[:, None], beta[:, None]
        square = (self.block, self.block)
        gamma, beta = (x.unflatten(-1, square).repeat(1, self.repeats, 1)[:, :length] for x in (gamma, beta))
        return gamma, beta
