"""`start: auto`: score each start of a new task before any training (CA-MTL, Table 3.8)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.splits.subset import rows_of
from weft.evaluation.baselines import majority
from weft.evaluation.evaluate import fixed_examples, judged
from weft.evaluation.scores import main_score
from weft.growing.heads import HeadValues, mapped_head, random_head, set_head
from weft.inference.finite import check_logits
from weft.inference.runner import answers, outputs
from weft.model.heads import Head
from weft.model.pooling import Reads

if TYPE_CHECKING:
    from weft.data.splits.split import Split
    from weft.data.tokens.tokens import Tokens
    from weft.growing.settings import GrowSettings
    from weft.growing.start import StartValues
    from weft.model.model import Model

HEADS = 5
"""The number of random heads that a score is averaged over, if there is no head to copy."""


@dataclass(frozen=True)
class Candidate:
    """One start and its score.

    Attributes:
        start: a task's name, `average`, `random` or `xavier`.
        score: the task's first metric, before any training.
        head: a description of the head.
    """

    start: str
    score: float
    head: str


@dataclass(frozen=True)
class ZeroShot:
    """The result of `start: auto`.

    Attributes:
        metric: the metric of the scores.
        rows: the number of validation rows evaluated.
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
    start_values: StartValues,
    grow: GrowSettings,
    train: Split,
    validation: Split,
    tokens: Tokens,
    seed: int,
) -> ZeroShot:
    """Score every start on a few validation rows, always the same. The new task keeps the last one.

    Args:
        start_values: the possible initial values of the new task.
        grow: its label maps, and the number of rows.
        train: its training rows, for the majority guess.
        validation: its validation rows.
        tokens: the same, tokenized.
        seed: the seed of the selection of rows.
    """
    model, name = start_values.model, start_values.name
    task = model.tasks[start_values.new]
    chosen = fixed_examples(tokens, grow.zero_shot_rows, seed, name)
    sample = rows_of(validation, chosen)
    metric = task.metrics[0]
    candidates: list[Candidate] = []
    values: list[float] = []
    for start in start_values.candidates():
        start_values.take(start)
        read = _read_by_heads(model, start_values.new, tokens, chosen)
        if start in grow.label_map:
            heads = [mapped_head(model, start, name, grow.label_map[start])]
            description = f"{start}'s, by label map"
        else:
            heads = [random_head(model, name, number) for number in range(HEADS)]
            description = f"random, mean of {HEADS} seeds"
        metrics = [
            judged(task, _tried(model, name, head, read, tokens, chosen), tokens, chosen) for head in heads
        ]
        candidates.append(
            Candidate(start, float(np.mean([scores[metric] for scores in metrics])), description)
        )
        values.append(float(np.mean([main_score(scores) for scores in metrics])))
    finite = [value if math.isfinite(value) else -math.inf for value in values]
    best = candidates[finite.index(max(finite))].start
    return ZeroShot(metric, len(chosen), tuple(candidates), best, majority(task, train, sample)[metric])


def _read_by_heads(model: Model, task: int, tokens: Tokens, chosen: Sequence[int]) -> Tensor | None:
    """Return the vectors that the heads read, [n, d]: the encoder runs once for all heads that are tried.

    None if a head is more than one product with one vector per row: it is then tried in the model.
    """
    head = model.heads[model.tasks[task].head]
    assert isinstance(head, Head)
    if head.reads != "pooled" or set(head.stacks) != {"weight", "bias"} or tokens.row_counts.max() > 1:
        return None
    vectors: list[Tensor | None] = [None] * len(chosen)
    for batch in outputs(model, [(task, tokens, i) for i in chosen]):
        output = batch.output
        read = Reads(output.hidden, output.pooled, output.layout).pooled(head.pool)
        for example, value in zip(batch.examples, read, strict=True):
            vectors[example] = value.float()
    return torch.stack([value for value in vectors if value is not None])


def _tried(
    model: Model, name: str, head: HeadValues, read: Tensor | None, tokens: Tokens, chosen: Sequence[int]
) -> Sequence[NDArray[np.float32]]:
    """The logits of the examples under this head."""
    if read is not None:
        logits = torch.nn.functional.linear(read, head["weight"], head["bias"]).cpu().numpy()
        number = model.task_id(name)
        check_logits(model.tasks, np.full(len(logits), number), ~np.isfinite(logits).all(1))
        return list(logits)
    set_head(model, name, head)
    return answers(model, [(model.task_id(name), tokens, i) for i in chosen])
