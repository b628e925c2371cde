"""A captured pass, and the layout of its batch: tensors by name in one contiguous buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.acceleration.packed import fields_of, pack
from weft.data.batching.batch import TrainingBatch
from weft.training.step.microbatches import MicroBatch, Packed

if TYPE_CHECKING:
    from weft.model.model import Model

INPUT, LABEL, ONLY = "input ", "label ", "only "
"""Prefixes of the names of inputs and labels; `only ` is followed by the id of a batch's single task."""

LANE = "lane "
"""The prefix of all names of a batch that runs side by side with others: `lane 2 input input_ids`."""

Pass = Callable[[dict[str, Tensor], list[Tensor]], None]
"""A pass over a batch, which replaces the content of the list by one tensor with a value per example, [E]."""


@dataclass(frozen=True, eq=False)
class Captured:
    """A captured pass.

    Attributes:
        memory: the buffer that its batch is copied into.
        form: the names, dtypes and shapes of the batch's tensors.
        run: replays the graph.
        values: one tensor with a value per example, [E]; every replay writes to the same tensor.
        eager: the Python function that was captured.
    """

    memory: Tensor
    form: tuple[Any, ...]
    run: Callable[[], None]
    values: list[Tensor]
    eager: Pass


def tensors_of(microbatch: MicroBatch) -> dict[str, Tensor]:
    """All tensors of a micro-batch by name."""
    tasks, weight = torch.from_numpy(microbatch.tasks), torch.from_numpy(microbatch.weight)
    return {**tensors_of_batch(microbatch.batch), "tasks": tasks, "weight": weight}


def tensors_of_batch(batch: TrainingBatch) -> dict[str, Tensor]:
    """The tensors of a batch by name, without the weights of its examples."""
    tensors = {INPUT + name: x for name, x in batch.inputs.items()}
    tensors |= {LABEL + name: x for name, x in batch.labels.items()}
    # the number of examples, including the one without rows, is part of the batch's form
    tensors["examples"] = torch.zeros(batch.examples, dtype=torch.uint8)
    return tensors


def side_by_side(batches: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors of several batches under different names, which `lanes_of` undoes."""
    return {f"{LANE}{n} {name}": x for n, batch in enumerate(batches) for name, x in batch.items()}


def lanes_of(tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """The batches that run side by side; the batch itself, if it runs alone."""
    lanes: dict[str, dict[str, Tensor]] = {}
    for name, x in tensors.items():
        if not name.startswith(LANE):
            return [tensors]
        lane, _, rest = name.removeprefix(LANE).partition(" ")
        lanes.setdefault(lane, {})[rest] = x
    return list(lanes.values())


def mask_one(tensors: dict[str, Tensor]) -> None:
    """Mask one position of every batch.

    Hugging Face leaves out the mask of a batch without padding, except in a graph. Attention would then run a
    different kernel, whose dropout draws different random numbers.
    """
    for batch in lanes_of(tensors):
        batch[INPUT + "attention_mask"][0, -1] = 0


def packed_batch(tensors: dict[str, Tensor], separate: bool, pinned: bool) -> Packed:
    """Pack the tensors of a batch into one buffer.

    Args:
        tensors: the tensors by name.
        separate: whether each task has its own encoder; the name of a further, empty tensor then gives the
            task's id, or no id if the batch has several tasks.
        pinned: whether the buffer is in pinned memory.
    """
    if separate:
        ids = tensors[INPUT + "task"].unique().tolist()
        task = str(ids[0]) if len(ids) == 1 else ""
        tensors = {**tensors, ONLY + task: torch.zeros(0, dtype=torch.uint8)}
    return Packed(fields_of(tensors), pack(tensors, pinned))


@contextmanager
def one_task(model: Model, names: Iterable[str]) -> Iterator[None]:
    """Inside, rows run through the encoder of the task in a batch's tensor names (method `separate`)."""
    body: Any = model.body
    for name in names:
        if name.startswith(ONLY):
            body.only = int(name.removeprefix(ONLY))
    try:
        yield
    finally:
        if model.method.separate:
            body.only = None
