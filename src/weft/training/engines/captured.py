"""A captured pass, and the form of the batches that it takes: everything by name, in one piece of memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.data.batching.batch import TrainingBatch
from weft.training.step.microbatches import MicroBatch

INPUT, LABEL, ONLY = "input ", "label ", "only "
"""What the names of inputs and labels begin with; `only ` is followed by the one task of a batch."""

Pass = Callable[[dict[str, Tensor], list[Tensor]], None]
"""A pass over a batch; what it finds of each example, [E], is put into the list in place of what is there."""


@dataclass(frozen=True, eq=False)
class Captured:
    """A captured pass.

    Attributes:
        memory: what its batch is put into.
        form: of the batch.
        run: the captured pass.
        found: what it finds of each example, one tensor [E]: a captured pass writes to the same in every run.
        written: the pass as it was written; `run` is the capture of it.
    """

    memory: Tensor
    form: tuple[Any, ...]
    run: Callable[[], None]
    found: list[Tensor]
    written: Pass


def tensors_of(part: MicroBatch) -> dict[str, Tensor]:
    """All tensors of a part by name."""
    own = {"tasks": torch.from_numpy(part.tasks), "weight": torch.from_numpy(part.weight)}
    return {**tensors_of_batch(part.batch), **own}


def tensors_of_batch(batch: TrainingBatch) -> dict[str, Tensor]:
    """Those of a batch alone, without what its examples weigh."""
    found = {INPUT + name: x for name, x in batch.inputs.items()}
    found |= {LABEL + name: x for name, x in batch.labels.items()}
    # how many examples there are, one without rows of its own included, is part of the batch's form
    found["examples"] = torch.zeros(batch.examples, dtype=torch.uint8)
    return found
