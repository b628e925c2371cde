"""How unsure a model is of an answer, from 0 (sure) to 1 (every answer alike).

`entropy` is H(p) / (ln C + ε), H(p) = −Σ_c p_c·ln p_c over the C answers there are; `margin` is
1 − (p₍₁₎ − p₍₂₎), the two largest. Of one answer alone both are 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from weft.core.layout import Layout

EPSILON = 1e-5
"""Keeps ln 1 = 0 from being divided by; it is that of CA-MTL's code."""


def of_classes(logits: Tensor, measure: str, keep: Tensor | None = None) -> Tensor:
    """Over the last dimension, [..., C] → [...].

    Args:
        logits: [..., C].
        measure: `entropy` or `margin`.
        keep: true where there is an answer, [..., C], one at the least; None: everywhere. C is then how many.
    """
    scores = logits.float()
    if keep is not None:
        scores = scores.masked_fill(~keep, -torch.inf)
    shares = scores.softmax(-1)
    if measure == "margin":
        best = shares.topk(min(2, shares.size(-1)), -1).values
        second = best[..., 1] if best.size(-1) == 2 else torch.zeros_like(best[..., 0])
        return 1 - (best[..., 0] - second)
    entropy = torch.special.entr(shares).sum(-1)
    if keep is None:
        return entropy / (math.log(shares.size(-1)) + EPSILON)
    return entropy / (keep.sum(-1).float().log() + EPSILON)


def of_yes_or_no(logits: Tensor, measure: str) -> Tensor:
    """Of each answer by itself, p = σ(logit) against 1 − p, [...] → [...]."""
    x = logits.float()
    return of_classes(torch.stack([x, torch.zeros_like(x)], -1), measure)


def of_rows(scores: Tensor, layout: Layout, measure: str) -> Tensor:
    """Over each example's rows, of which C is the number, [R] → [E]."""
    scores = scores.float()
    shares = (scores - layout.of_rows(layout.log_sum_exp(scores))).exp()
    if measure == "margin":
        best = layout.max(shares)
        at_best = shares == layout.of_rows(best)
        second = layout.max(shares.masked_fill(at_best, 0.0))
        return 1 - (best - torch.where(layout.sum(at_best.long()) > 1, best, second))
    rows = layout.sum(torch.ones_like(shares))
    # a share is above 1 by rounding alone
    return layout.sum(torch.special.entr(shares.clamp(max=1))) / (rows.log() + EPSILON)


def of_pairs(scores: Tensor, layout: Layout, measure: str) -> Tensor:
    """The mean over each example's pairs of rows of σ(s_i − s_j) against 1 − σ, [R] → [E]; 0 of no pair."""
    scores = scores.float()
    rows = torch.arange(len(scores), device=scores.device)
    example = rows if layout.example is None else layout.example
    paired = (example[:, None] == example[None, :]) & (rows[:, None] != rows[None, :])  # [R, R]
    each = of_yes_or_no(scores[:, None] - scores[None, :], measure)
    pairs = layout.sum(paired.float().sum(1))
    return layout.sum(torch.where(paired, each, 0.0).sum(1)) / pairs.clamp(min=1)
