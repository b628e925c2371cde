"""Evaluating a model on its tasks' validation or test rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from weft.evaluation.answers import answers
from weft.evaluation.metrics import LOWER_IS_BETTER, score
from weft.tasks.kinds import KINDS

if TYPE_CHECKING:
    from weft.data.tokens import Tokens
    from weft.model import Model
    from weft.tasks.task import Task


class Scores(TypedDict):
    """What an evaluation found.

    Attributes:
        tasks: each task's metrics; its first metric is its score.
        rows: how many rows of each task were looked at.
        average: the mean of the tasks' scores, an error (mse) counting as 1 − error.
    """

    tasks: dict[str, dict[str, float]]
    rows: dict[str, int]
    average: float


def evaluate(
    model: Model, data: Mapping[str, Tokens], rows: Mapping[str, Sequence[int]] | None = None
) -> Scores:
    """Evaluate on labelled rows.

    Args:
        model: the model.
        data: the tokenised split of each task, with labels.
        rows: which rows of each task; by default all.
    """
    chosen = {
        name: list(range(len(tokens))) if rows is None else list(rows[name]) for name, tokens in data.items()
    }
    listed = [(model.task_id(name), data[name], i) for name, which in chosen.items() for i in which]
    logits = answers(model, listed)
    metrics: dict[str, dict[str, float]] = {}
    position = 0
    for name, which in chosen.items():
        own = np.stack([x.numpy() for x in logits[position : position + len(which)]])
        position += len(which)
        labels: Any = data[name].labels
        metrics[name] = judged(model.tasks[model.task_id(name)], own, [labels[i] for i in which])
    return Scores(
        tasks=metrics,
        rows={name: len(which) for name, which in chosen.items()},
        average=float(np.mean([main_score(m) for m in metrics.values()])),
    )


def judged(task: Task, logits: NDArray[np.float32], gold: Sequence[Any]) -> dict[str, float]:
    """A task's metrics, of logits [n, C] and the right answers of the same rows."""
    return score(task.metrics, gold, KINDS[task.kind]().decode(task.in_range(logits)))


def main_score(metrics: Mapping[str, float]) -> float:
    """A task's score, the larger the better: its first metric."""
    name, value = next(iter(metrics.items()))
    return 1 - value if name in LOWER_IS_BETTER else value


def fixed_rows(size: int, limit: int | None, seed: int, name: str) -> list[int]:
    """The rows of a split that are looked at during training: always the same, spread over the split.

    Args:
        size: the rows there are.
        limit: how many to take; None: all.
        seed: of the choice.
        name: the task's name.
    """
    from weft.sampling.draws import draw_key
    from weft.sampling.permutation import permute

    if limit is None or size <= limit:
        return list(range(size))
    places = permute(np.arange(limit), size, draw_key(seed, "evaluate", name))
    return sorted(int(p) for p in places)
