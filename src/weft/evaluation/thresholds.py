"""Tuning the thresholds of labels: from which probability on a label is predicted.

A multi-label head is trained by binary cross-entropy, whose natural threshold is one half. Rare labels seldom
reach it. For each label the threshold with the largest F1 on the validation rows is found, exactly: F1
changes only where the threshold passes a score, so every distinct score is tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError
from weft.inference.examples import Examples
from weft.inference.runner import answers
from weft.metrics.labels import f1_of
from weft.tasks.kinds import KINDS
from weft.tasks.kinds.probabilities import sigmoid

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.inference.precision import PassContext
    from weft.model.model import Model
    from weft.tasks.task import Task

HALF = 0.5
OPTION = "thresholds"
"""Kinds whose options include this have labels with thresholds."""
FEW = 10
"""With fewer examples of a label than this, its threshold is uncertain."""


@dataclass(frozen=True)
class TunedLabel:
    """The threshold of one label.

    Attributes:
        label: the label.
        examples: the number of rows that have it.
        threshold: the label is predicted if its probability is above this.
        f1: its F1 with this threshold, on the rows that it was tuned on.
        f1_at_half: its F1 with the threshold one half.
    """

    label: str
    examples: int
    threshold: float
    f1: float
    f1_at_half: float

    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON."""
        return asdict(self)


def best_threshold(chances: NDArray[np.float64], gold: NDArray[np.int64]) -> float:
    """Return the threshold with the largest F1 of one label.

    Of equally good ones the nearest to one half is returned, and it lies halfway between two scores, so that
    rounding does not change a prediction. One half is returned if no row has the label.

    Args:
        chances: the predicted probabilities, [N].
        gold: 1 where the label holds, else 0, [N].
    """
    from sklearn.metrics import precision_recall_curve

    if not gold.any():
        return HALF
    precision, recall, scores = precision_recall_curve(gold, chances)
    # the curve predicts the label at `scores` and above; its last point has no score
    sums = (precision + recall)[:-1]
    f1 = np.divide(2 * (precision * recall)[:-1], sums, out=np.zeros_like(sums), where=sums > 0)
    below = np.concatenate([[0.0], scores[:-1]])
    f1[scores <= below] = -1.0  # a probability of 0 is above no threshold
    # equal up to rounding: F1 is a ratio of counts
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    return min((_between(below[i], scores[i]) for i in best), key=lambda threshold: abs(threshold - HALF))


def _between(low: float, high: float) -> float:
    """A threshold t with low ≤ t < high: one half if it fits, else the middle."""
    if low <= HALF < high:
        return HALF
    middle = (low + high) / 2
    return float(middle if low <= middle < high else low)


def tuned(task: Task, logits: Sequence[NDArray[np.float32]], gold: NDArray[np.int64]) -> list[TunedLabel]:
    """Find the best threshold of each label of a task.

    Args:
        task: the task.
        logits: the logits of each example, N times [C].
        gold: 1 where a label holds, else 0, [N, C].
    """
    kind = KINDS[task.kind]()
    # one half as a threshold, and not the sign of the logit: a logit of 1e-45 has a probability of one half
    plain = replace(task, thresholds=(HALF,) * len(task.labels), tuned_on=None)
    values = tuple(
        best_threshold(chances, truth)
        for chances, truth in zip(sigmoid(np.stack(logits), task.temperature).T, gold.T, strict=True)
    )
    before = kind.decode(logits, plain, ())
    after = kind.decode(logits, replace(task, thresholds=values, tuned_on=None), ())
    labels = []
    for number, label in enumerate(task.labels):
        truth = gold[:, number]
        scores = [
            f1_of(float((truth & found[:, number]).sum()), float(truth.sum() + found[:, number].sum()))
            for found in (after, before)
        ]
        labels.append(TunedLabel(label, int(truth.sum()), values[number], *scores))
    return labels


def tune_model(
    model: Model,
    data: Mapping[str, Tokens],
    rows: Mapping[str, Sequence[int]],
    split: str,
    precision: PassContext | None = None,
) -> dict[str, list[TunedLabel]]:
    """Tune the thresholds of the model's tasks that have them; the model's tasks are changed.

    Args:
        model: the model.
        data: the tokenized split of each task, with labels.
        rows: the examples of each split to use.
        split: the name of the split, which the tasks remember.
        precision: what makes the context of each pass.
    """
    names = [
        name
        for name in data
        if any(task.name == name and OPTION in KINDS[task.kind].options for task in model.tasks)
    ]
    if not names:
        having = ", ".join(kind for kind in KINDS if OPTION in KINDS[kind].options)
        kinds = ", ".join(f"{task.name}: {task.kind}" for task in model.tasks)
        raise WeftError(f"no task has thresholds to tune; only the kind {having} has; found {kinds}")
    found = {}
    for name in names:
        number = model.task_id(name)
        task, tokens, which = model.tasks[number], data[name], rows[name]
        logits = answers(model, Examples.of_sets([(number, tokens, which)]), precision=precision)[:]
        labels: Any = tokens.labels
        gold = KINDS[task.kind]().gold([labels[i] for i in which], task, tokens.examples(which))
        found[name] = tuned(task, logits, gold)
        values = tuple(label.threshold for label in found[name])
        changed = replace(task, thresholds=values, tuned_on=split)
        model.tasks = (*model.tasks[:number], changed, *model.tasks[number + 1 :])
    return found


def without_tuned(task: Task) -> Task:
    """The task without thresholds that were tuned for other weights; those of a run file are kept."""
    return task if task.tuned_on is None else replace(task, thresholds=(), tuned_on=None)
