"""What a step's examples become on the host: parts of it, each a batch with its weights.

Everything here follows from the plan and the data alone, so that it can be made ahead of the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.batching.batch import TrainingBatch, class_weights, make_batch
from weft.errors import WeftError
from weft.sampling.plan.plan import Step
from weft.training.optim.precision import precision
from weft.training.settings import Training
from weft.training.step.shapes import Shapes
from weft.training.step.trunk_cache import TrunkCache
from weft.utils.counter_rng import Ints
from weft.utils.processes import Processes

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model

HOST = torch.device("cpu")
TRUNK_ROWS = "trunk_rows"


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """Some of a step's examples, one pass.

    Attributes:
        tasks: the plan's task of each example, [E].
        weight: what each one's loss weighs, its label's weight in it, before the task's factor, [E].
        batch: rows and targets, on the host. Padded to a fixed number of rows, it has one example more.
    """

    tasks: Ints
    weight: NDArray[np.float32]
    batch: TrainingBatch


@dataclass(frozen=True, eq=False)
class Packed:
    """A batch in one piece of the host's memory.

    Attributes:
        form: the name, type and shape of each tensor, in order.
        memory: [n] of uint8.
    """

    form: tuple[Any, ...]
    memory: Tensor


@dataclass(frozen=True, eq=False)
class PreparedStep:
    """A step and its parts of this process; of a step whose tasks run one by one, none are made ahead.

    Attributes:
        packed: each part as one piece of memory, where an engine wants it so.
    """

    step: Step
    parts: list[MicroBatch]
    packed: list[Packed] = field(default_factory=list)


class MicroBatches:
    """Makes the parts of steps.

    Args:
        model: the model.
        training: how to train.
        train: the tokenized training rows of each task of the plan, [T].
        ids: the model's id of each, [T].
        processes: those that train together.
        shapes: the lengths and numbers of rows that batches are padded to; None: as long as their longest
            row.

    Attributes:
        trunk: what the frozen trunk gives for every row, where it is kept.
    """

    def __init__(
        self,
        model: Model,
        training: Training,
        train: Sequence[Tokens],
        ids: Ints,
        processes: Processes,
        shapes: Shapes | None = None,
    ) -> None:
        self.model, self.training, self.train, self.ids = model, training, train, ids
        self.processes, self.shapes = processes, shapes
        self._class_weights = [class_weights(tokens) for tokens in train]
        self.trunk: TrunkCache | None = None

    def keep_trunk(self) -> None:
        """Where that is asked for, run the frozen trunk over all rows, once."""
        if not self.training.trunk_cache or self.trunk is not None:
            return
        if self.processes.world > 1:
            raise WeftError("train.trunk_cache: expected one process; set it to false to train with several")
        device = next(self.model.parameters()).device
        under = precision(self.training, device)
        self.trunk = TrunkCache(self.model, self.train, self.ids.tolist(), under)

    def given(self, inputs: Mapping[str, Tensor]) -> dict[str, Any]:
        """What the model is called with: the inputs of a batch, and what the trunk gave for its rows."""
        given: dict[str, Any] = dict(inputs)
        if self.trunk is not None:
            given["trunk"] = self.trunk.of(given.pop(TRUNK_ROWS), given["input_ids"].size(1))
        return given

    def prepare(self, step: Step) -> PreparedStep:
        """A step with its parts; where tasks' gradients are merged, each task is a part by itself later."""
        if self.training.conflict is not None:
            return PreparedStep(step, [])
        return PreparedStep(step, list(self.of(step)))

    def of(self, step: Step) -> Iterator[MicroBatch]:
        """This process's parts of a step.

        As many parts in every process, and none empty: processes wait for each other in each.
        """
        for part in np.array_split(np.arange(len(step.task)), self.training.accumulate):
            if len(part):
                mine = self.processes.cut(part)
                if len(mine):
                    yield self.part(step.task[mine], step.index[mine], step.weight[mine])
                else:
                    yield self.part(step.task[part[:1]], step.index[part[:1]], np.zeros(1, np.float32))

    def part(self, tasks: Ints, index: Ints, weight: NDArray[np.float32]) -> MicroBatch:
        """A part of these examples.

        Args:
            tasks: the plan's task of each, [E].
            index: which example of the task, [E].
            weight: by the plan's rule, [E].
        """
        return MicroBatch(tasks, weight * self._label_weights(tasks, index), self.batch(tasks, index))

    def batch(self, tasks: Ints, index: Ints) -> TrainingBatch:
        """The rows and targets of these examples, on the host; tasks and index [E]."""
        items = [(self.train[t], i) for t, i in zip(tasks.tolist(), index.tolist(), strict=True)]
        fixed: dict[str, Any] = {} if self.shapes is None else self.shapes.of(tasks, index)._asdict()
        batch = make_batch(self.model, items, self.ids[tasks], HOST, **fixed)
        if self.trunk is not None:
            rows = self.trunk.rows(items, batch.inputs["task"].size(0))
            batch.inputs[TRUNK_ROWS] = torch.from_numpy(rows)
        return batch

    def _label_weights(self, tasks: Ints, index: Ints) -> NDArray[np.float32]:
        """What each example's label weighs, [E]; 1 where its task weighs all alike."""
        found = np.ones(len(tasks), np.float32)
        for t in np.unique(tasks).tolist():
            weights = self._class_weights[t]
            if weights is not None:
                labels: Any = self.train[t].labels
                for place in np.flatnonzero(tasks == t).tolist():
                    found[place] = weights[labels[int(index[place])]]
        return found
