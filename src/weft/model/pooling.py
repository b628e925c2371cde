"""What heads read of the encoder's output: a vector a row, a pair's two, marked places, every token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from weft.core.layout import Layout

TASK_POOLER = "task_pooler"
WIDTHS = {"pooled": 1, "tokens": 1, "pair": 2, "marked": 3}


def width_of(reads: str, width: int) -> int:
    """The numbers that a head of this kind of reading is given, of an encoder of this width."""
    return WIDTHS[reads] * width


def base_pool(pool: str) -> str:
    """What is read before a task's own pooler: the first token, as the encoder's own reads it."""
    return "cls" if pool == TASK_POOLER else pool


@dataclass(eq=False)
class Reads:
    """The encoder's output for R rows, as heads may read it.

    Attributes:
        hidden: [R, L, d].
        own: the encoder's pooler on it, [R, d].
        layout: which example each row is of, and where it has tokens.
        marks: 1 where a token lies in the first mark, 2 in the second, 3 in both, [R, L]; None without marks.
    """

    hidden: Tensor
    own: Tensor
    layout: Layout
    marks: Tensor | None = None

    def pooled(self, pool: str) -> Tensor:
        """A vector a row, [R, d]: `pooler`, `cls` or `mean` (Σ mask·hidden / Σ mask)."""
        if pool == "pooler":
            return self.own
        if pool == "cls":
            return self.hidden[:, 0]
        if self.layout.mask is None:
            return self.hidden.mean(1)
        return _mean(self.hidden, self.layout.mask)

    def joined(self, reads: str, x: Tensor) -> Tensor:
        """What a head reads, from a vector a row [R, d].

        `pooled`: the vector itself. `pair`: [u; v] of the example's two rows, [R, 2d]. `marked`: with it the
        mean of each mark's tokens, [R, 3d].
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
    """The mean of the hidden states where it is true, [R, d]; 0 of none."""
    share = where.to(hidden.dtype) / where.sum(1, keepdim=True).clamp(min=1)
    return torch.einsum("rl,rld->rd", share, hidden)
