"""The heads' inputs from the encoder's output: one vector per row, pairs, marked tokens, or every token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from weft.core.layout import Layout

TASK_POOLER = "task_pooler"
WIDTHS = {"pooled": 1, "tokens": 1, "pair": 2, "marked": 3}


def width_of(reads: str, width: int) -> int:
    """Return the input width of a head that reads this, for an encoder of this width."""
    return WIDTHS[reads] * width


def base_pool(pool: str) -> str:
    """Return what a task's pooler reads: the first token, as the encoder's pooler does."""
    return "cls" if pool == TASK_POOLER else pool


@dataclass(eq=False)
class Reads:
    """The encoder's output for R rows, as heads may read it.

    Attributes:
        hidden: [R, L, d].
        pooler_output: the output of the encoder's pooler, [R, d].
        layout: which example each row belongs to, and where it has tokens.
        marks: 1 where a token is in the first mark, 2 in the second, 3 in both, [R, L]; None without marks.
    """

    hidden: Tensor
    pooler_output: Tensor
    layout: Layout
    marks: Tensor | None = None

    def pooled(self, pool: str) -> Tensor:
        """One vector per row, [R, d]: `pooler`, `cls` or `mean` (Σ mask·hidden / Σ mask)."""
        if pool == "pooler":
            return self.pooler_output
        if pool == "cls":
            return self.hidden[:, 0]
        if self.layout.mask is None:
            return self.hidden.mean(1)
        return _mean(self.hidden, self.layout.mask)

    def joined(self, reads: str, x: Tensor) -> Tensor:
        """Return the head's input, from one vector per row [R, d].

        `pooled`: the vector itself. `pair`: [u; v] of the example's two rows, [R, 2d]. `marked`: the vector
        and the mean of each mark's tokens, [R, 3d].
        """
        if reads == "pair":
            return self.layout.both(x)
        if reads == "marked":
            marks = torch.zeros(self.hidden.shape[:2], dtype=torch.long, device=x.device)
            marks = marks if self.marks is None else self.marks
            places = [_mean(self.hidden, (marks & bit) > 0) for bit in (1, 2)]
            return torch.cat([x, *(place.to(x.dtype) for place in places)], -1)
        return x

    def cosine(self, pool: str) -> Tensor:
        """cos(u, v) of the example's two rows, [R, 1]."""
        u, v = self.layout.both(self.pooled(base_pool(pool))).float().chunk(2, -1)
        return F.cosine_similarity(u, v, -1)[:, None]


def _mean(hidden: Tensor, where: Tensor) -> Tensor:
    """The mean of the hidden states where `where` is true, [R, d]; 0 if it is nowhere true."""
    share = where.to(hidden.dtype) / where.sum(1, keepdim=True).clamp(min=1)
    return torch.einsum("rl,rld->rd", share, hidden)
