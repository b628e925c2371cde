"""The batch of some of a step's examples: rows, targets, and what labels weigh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.collate import collate

if TYPE_CHECKING:
    from weft.data.tokens import Tokens
    from weft.model import Model


@dataclass(frozen=True)
class TrainingBatch:
    """Some examples, ready for the model.

    Attributes:
        inputs: what the forward pass takes, `task` of each row among it, on the host, where the model can see
            that all are one.
        labels: of `Model.collate_labels`.
    """

    inputs: dict[str, Tensor]
    labels: dict[str, Tensor]


def make_batch(
    model: Model, items: Sequence[tuple[Tokens, int]], task: NDArray[np.int64], device: torch.device
) -> TrainingBatch:
    """Collate examples and their targets.

    Args:
        model: the model.
        items: (tokens, example) of each of E examples.
        task: the model's task id of each, [E].
        device: where all but the task ids go.
    """
    inputs = collate(items, model.pad_id)
    of_examples = torch.from_numpy(task)
    example = inputs.get("example")
    targets: list[Any] = [tokens.target(i) for tokens, i in items]
    labels = model.collate_labels(targets, of_examples, example, inputs["input_ids"].size(1))
    inputs = {name: value.to(device) for name, value in inputs.items()}
    inputs["task"] = of_examples if example is None else of_examples[example]
    return TrainingBatch(inputs, {name: value.to(device) for name, value in labels.items()})


def class_weights(tokens: Tokens) -> NDArray[np.float32] | None:
    """The weight of each label of a task, [C], or None if it has none.

    `balanced` is n / (C·n_c) with n_c the training examples of label c: each label then weighs the same in
    all, and the mean weight is 1 where every label occurs. One without examples has the weight 1.
    """
    task = tokens.split.task
    if not task.class_weights:
        return None
    if task.class_weights != "balanced":
        return np.array(task.class_weights, np.float32)
    labels: Any = tokens.labels
    counts = np.bincount(np.asarray(labels, np.int64), minlength=task.size or 0)
    return np.where(counts > 0, len(labels) / (len(counts) * np.maximum(counts, 1)), 1).astype(np.float32)
