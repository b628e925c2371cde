"""How well each beginning of a new task does before any training (CA-MTL, Table 3.8)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from weft.data.subset import rows_of
from weft.evaluation.answers import outputs
from weft.evaluation.baselines import majority
from weft.evaluation.evaluate import fixed_rows, judged, main_score
from weft.growing.heads import HeadValues, mapped_head, random_head
from weft.heads import head_input

if TYPE_CHECKING:
    from weft.data.split import Split
    from weft.data.tokens import Tokens
    from weft.grow_settings import GrowSettings
    from weft.growing.start import Beginnings
    from weft.model import Model

HEADS = 5
"""Random heads that a score is averaged over, where there is no head to take."""


@dataclass(frozen=True)
class Candidate:
    """One beginning.

    Attributes:
        start: a task's name, `average`, `random` or `xavier`.
        score: the task's first metric, before any training.
        head: whose head it was.
    """

    start: str
    score: float
    head: str


@dataclass(frozen=True)
class ZeroShot:
    """What `start: auto` found.

    Attributes:
        metric: what the scores are.
        rows: how many validation rows they are of.
        candidates: in the order of the bundle's tasks, then `average`, `random`, `xavier`.
        best: the one with the best score, the first of equal ones.
        majority: the score of the most frequent training label, or of the mean, on the same rows.
    """

    metric: str
    rows: int
    candidates: tuple[Candidate, ...]
    best: str
    majority: float


def zero_shot(
    beginnings: Beginnings,
    grow: GrowSettings,
    train: Split,
    validation: Split,
    tokens: Tokens,
    seed: int,
) -> ZeroShot:
    """Score every beginning on a few validation rows, always the same; the new task is left at the last.

    Args:
        beginnings: of the new task.
        grow: its label maps, and how many rows.
        train: its training rows, for the majority guess.
        validation: its validation rows.
        tokens: the same, tokenised.
        seed: of the choice of rows.
    """
    model, name = beginnings.model, beginnings.name
    task = model.tasks[beginnings.new]
    chosen = fixed_rows(len(tokens), grow.zero_shot_rows, seed, name)
    sample = rows_of(validation, chosen)
    gold: list[Any] = sample.labels or []
    metric = task.metrics[0]
    found: list[Candidate] = []
    values: list[float] = []
    for start in beginnings.candidates():
        beginnings.take(start)
        read = _read_by_heads(model, beginnings.new, tokens, chosen)  # [n, d]
        if start in grow.label_map:
            heads = [mapped_head(model, start, name, grow.label_map[start])]
            whose = f"{start}'s, by label map"
        else:
            heads = [random_head(model, name, number) for number in range(HEADS)]
            whose = f"random, mean of {HEADS} seeds"
        metrics = [judged(task, _logits(read, head).numpy(), gold) for head in heads]
        found.append(Candidate(start, float(np.mean([one[metric] for one in metrics])), whose))
        values.append(float(np.mean([main_score(one) for one in metrics])))
    finite = [value if math.isfinite(value) else -math.inf for value in values]
    best = found[finite.index(max(finite))].start
    return ZeroShot(metric, len(chosen), tuple(found), best, majority(task, train, sample)[metric])


def _read_by_heads(model: Model, task: int, tokens: Tokens, chosen: Sequence[int]) -> Tensor:
    """What the heads read of the rows, [n, d]: the encoder runs once, however many heads are tried."""
    found: list[Tensor | None] = [None] * len(chosen)
    for batch in outputs(model, [(task, tokens, i) for i in chosen]):
        given = batch.output
        mask = batch.mask.bool().to(given.hidden.device)
        read = head_input(model.pool, given.hidden, given.pooled, mask)
        for row, value in zip(batch.rows, read, strict=True):
            found[row] = value.float()
    return torch.stack([value for value in found if value is not None])


@torch.no_grad()
def _logits(read: Tensor, head: HeadValues) -> Tensor:
    """[n, d] → [n, C], on the CPU."""
    return torch.nn.functional.linear(read, head.weight, head.bias).cpu()
