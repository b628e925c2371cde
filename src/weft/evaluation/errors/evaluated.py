"""EvaluatedSet: the outputs of a model on one set of examples, and what was made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.tasks.task import Task


@dataclass(frozen=True, eq=False)
class EvaluatedSet:
    """The outputs and answers of one evaluated set.

    Attributes:
        name: `TASK`, or `TASK:SET`.
        task: the task, with its thresholds and its temperature.
        tokens: the examples.
        which: the examples that were evaluated, [N].
        logits: the logits of each of them, [N].
        gold: their labels as metrics compare them.
        predictions: the answers as metrics compare them.
        metrics: the metrics.
    """

    name: str
    task: Task
    tokens: Tokens
    which: Sequence[int]
    logits: Sequence[NDArray[np.float32]]
    gold: Any
    predictions: Any
    metrics: dict[str, float]
