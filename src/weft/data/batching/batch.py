"""TrainingBatch: the rows and targets of some examples of a step; and class weights."""

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
    """A batch of examples for the model.

    Attributes:
        inputs: the arguments of the forward pass, with `task` [R]. `task` stays on the host, where the model
            can check without synchronization whether all rows have one task.
        labels: the targets, as `Model.collate_labels` returns them.
        examples: the number of examples that the model sees: E plus those that fill up the batch.
    """

    inputs: dict[str, Tensor]
    labels: dict[str, Tensor]
    examples: int

    def to(self, device: torch.device) -> TrainingBatch:
        """Return the batch with everything except the task ids on a device."""
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
    examples: int | None = None,
) -> TrainingBatch:
    """Collate examples and their targets.

    With `rows`, further rows of one token each fill up the batch. If `example` is among the `keys`, or if an
    example has several rows, all filling rows belong to one additional example, number E, or to as many as
    `examples` asks for, and there must be a row for each; otherwise each row is a separate example. Such
    examples have the task of the first example and an arbitrary target: only the losses of the first E
    examples count.

    Args:
        model: the model.
        items: (tokens, index) of each of the E examples.
        task: the model's task id of each example, [E].
        device: the device of everything except the task ids.
        length: L; by default the length of the longest row.
        rows: R; by default the number of rows of the examples.
        keys: which of `token_type_ids`, `marks` and `example` the inputs have; by default those that the
            examples need.
        examples: the number of examples, filling ones included; by default one more than E, if filling rows
            share an example.
    """
    chosen = picked(items, task)
    gathered = gather(chosen, model.pad_id, length, rows, keys, examples)
    labels = model.targets.gather(chosen, gathered, task)
    task_of_example = np.full(gathered.total, task[0])
    task_of_example[: len(task)] = task
    gathered.inputs["task"] = torch.from_numpy(task_of_example[gathered.example])
    batch = TrainingBatch(gathered.inputs, labels, gathered.total)
    return batch if device.type == "cpu" else batch.to(device)


def class_weights(tokens: Tokens) -> NDArray[np.float32] | None:
    """Return the weight of each label of a task, [C], or None if the task has no class weights.

    `balanced` is n / (C·n_c) with n_c the number of training examples of label c: all labels then have equal
    total weight, and the mean weight is 1 if every label occurs. A label without examples has weight 1.
    """
    task = tokens.split.task
    if not task.class_weights:
        return None
    if task.class_weights != "balanced":
        return np.array(task.class_weights, np.float32)
    labels: Any = tokens.labels
    counts = np.bincount(np.asarray(labels, np.int64), minlength=task.size or 0)
    return np.where(counts > 0, len(labels) / (len(counts) * np.maximum(counts, 1)), 1).astype(np.float32)
