"""The batch of some of a step's examples: rows, targets, and what labels weigh."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.batching.collate import gather, picked

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model


@dataclass(frozen=True)
class TrainingBatch:
    """Some examples, ready for the model.

    Attributes:
        inputs: what the forward pass takes, `task` of each row among it, on the host, where the model can see
            that all are one.
        labels: as `Model.collate_labels` gives them.
        examples: how many the model sees: E, and those that only fill the batch up.
    """

    inputs: dict[str, Tensor]
    labels: dict[str, Tensor]
    examples: int

    def to(self, device: torch.device) -> TrainingBatch:
        """The same with all but the task ids on a device."""
        inputs = {
            name: x if name == "task" else x.to(device, non_blocking=True) for name, x in self.inputs.items()
        }
        labels = {name: x.to(device, non_blocking=True) for name, x in self.labels.items()}
        return TrainingBatch(inputs, labels, self.examples)


def make_batch(
    model: Model,
    items: Sequence[tuple[Tokens, int]],
    task: NDArray[np.int64],
    device: torch.device,
    *,
    length: int | None = None,
    rows: int | None = None,
    keys: Collection[str] | None = None,
) -> TrainingBatch:
    """Collate examples and their targets.

    With `rows`, further rows of one token each fill the batch up. With `example` among the `keys`, or where
    an example has several rows, they are all of one example more, number E, and there must be one at the
    least; else each is an example by itself. Such examples have the task of the first and any target: the
    losses of the first E are those that count.

    Args:
        model: the model.
        items: (tokens, example) of each of E examples.
        task: the model's task id of each, [E].
        device: where all but the task ids go.
        length: L; by default the length of the longest row.
        rows: R; by default as many as the examples have.
        keys: which of `token_type_ids`, `marks` and `example` the inputs have; by default what the examples
            need.
    """
    chosen = picked(items, task)
    found = gather(chosen, model.pad_id, length, rows, keys)
    labels = model.targets.gather(chosen, found, task)
    of_examples = np.full(found.total, task[0])
    of_examples[: len(task)] = task
    found.inputs["task"] = torch.from_numpy(of_examples[found.example])
    batch = TrainingBatch(found.inputs, labels, found.total)
    return batch if device.type == "cpu" else batch.to(device)


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
