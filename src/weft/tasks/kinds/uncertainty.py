"""The uncertainty of a model's answer, from 0 (certain) to 1 (all answers equally likely).

`entropy` is H(p) / (ln C + ε) with H(p) = −Σ_c p_c·ln p_c over the C possible answers; `margin` is
1 − (p₍₁₎ − p₍₂₎) with the two largest probabilities. `raw_entropy` is H(p) alone, up to ln C: tasks with more
answers have larger values. If there is only one answer, all are 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from weft.core.layout import Layout

EPSILON = 1e-5
"""Prevents a division by ln 1 = 0; the value is that of CA-MTL's code."""
RAW = "raw_entropy"
"""The measure that is not divided by the entropy of C equally likely answers."""


def of_classes(logits: Tensor, measure: str, keep: Tensor | None = None) -> Tensor:
    """Uncertainty over the last dimension, [..., C] → [...].

    Args:
        logits: [..., C].
        measure: `entropy`, `margin` or `raw_entropy`.
        keep: true for possible answers, [..., C], at least one; C is their number. None: all are possible.
    """
    scores = logits.float()
    if keep is not None:
        scores = scores.masked_fill(~keep, -torch.inf)
    probabilities = scores.softmax(-1)
    if measure == "margin":
        best = probabilities.topk(min(2, probabilities.size(-1)), -1).values
        second = best[..., 1] if best.size(-1) == 2 else torch.zeros_like(best[..., 0])
        return 1 - (best[..., 0] - second)
    entropy = torch.special.entr(probabilities).sum(-1)
    if measure == RAW:
        return entropy
    if keep is None:
        return entropy / (math.log(probabilities.size(-1)) + EPSILON)
    return entropy / (keep.sum(-1).float().log() + EPSILON)


def of_yes_or_no(logits: Tensor, measure: str) -> Tensor:
    """Uncertainty of each answer separately, p = σ(logit) against 1 − p, [...] → [...]."""
    x = logits.float()
    return of_classes(torch.stack([x, torch.zeros_like(x)], -1), measure)


def of_rows(scores: Tensor, layout: Layout, measure: str) -> Tensor:
    """Uncertainty over the rows of each example, C their number, [R] → [E]."""
    scores = scores.float()
    probabilities = (scores - layout.of_rows(layout.log_sum_exp(scores))).exp()
    if measure == "margin":
        best = layout.max(probabilities)
        at_best = probabilities == layout.of_rows(best)
        second = layout.max(probabilities.masked_fill(at_best, 0.0))
        return 1 - (best - torch.where(layout.sum(at_best.long()) > 1, best, second))
    # a probability can exceed 1 by rounding only
    entropy = layout.sum(torch.special.entr(probabilities.clamp(max=1)))
    if measure == RAW:
        return entropy
    rows = layout.sum(torch.ones_like(probabilities))
    return entropy / (rows.log() + EPSILON)


def of_pairs(scores: Tensor, layout: Layout, measure: str) -> Tensor:
    """Mean uncertainty of σ(s_i − s_j) against 1 − σ over each example's pairs of rows, [R] → [E]."""
    scores = scores.float()
    rows = torch.arange(len(scores), device=scores.device)
    example = rows if layout.example is None else layout.example
    paired = (example[:, None] == example[None, :]) & (rows[:, None] != rows[None, :])  # [R, R]
    uncertainties = of_yes_or_no(scores[:, None] - scores[None, :], measure)
    pairs = layout.sum(paired.float().sum(1))
    return layout.sum(torch.where(paired, uncertainties, 0.0).sum(1)) / pairs.clamp(min=1)  # 0 without pairs
