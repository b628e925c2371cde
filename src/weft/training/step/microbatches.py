"""Micro-batches: the examples of a step as batches on the host, with their weights.

Everything here depends only on the plan and the data, so it can be prepared ahead of the step.
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
from weft.training.step.shapes import Shape, Shapes
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
    """The examples of one forward and backward pass.

    Attributes:
        tasks: the plan's task of each example, [E].
        weight: the weight of each example's loss, with its label's weight but without the task's factor, [E].
        batch: rows and targets, on the host. If padded to a fixed number of rows, it has one more example.
    """

    tasks: Ints
    weight: NDArray[np.float32]
    batch: TrainingBatch


@dataclass(frozen=True, eq=False)
class TaskGroup:
    """Micro-batches of one shape, of one task each, that run side by side (`train.conflict`).

    Attributes:
        chunk: the number of the step's micro-batch that they are parts of.
        tasks: the plan's task of each, in ascending order.
        microbatches: theirs; further ones have only weights of 0, so that groups have few sizes.
    """

    chunk: int
    tasks: tuple[int, ...]
    microbatches: list[MicroBatch]


@dataclass(frozen=True, eq=False)
class Packed:
    """A batch in one contiguous buffer on the host.

    Attributes:
        form: the name, type and shape of each tensor, in order.
        memory: [n] of uint8.
    """

    form: tuple[Any, ...]
    memory: Tensor


@dataclass(frozen=True, eq=False)
class PreparedStep:
    """A step with the micro-batches of this process.

    Attributes:
        step: the step.
        microbatches: of this process; none if the tasks' gradients are merged, because passes are then made
            per task.
        packed: each micro-batch, or each group, in one buffer, if the engine needs that.
        groups: the micro-batches of each task, if the tasks' gradients are merged in a captured step.
    """

    step: Step
    microbatches: list[MicroBatch]
    packed: list[Packed] = field(default_factory=list)
    groups: list[TaskGroup] = field(default_factory=list)


class MicroBatches:
    """Builds the micro-batches of steps.

    Args:
        model: the model.
        training: the settings of `train`.
        train: the tokenized training rows of each task of the plan, [T].
        ids: the model's id of each task, [T].
        processes: the processes that train together.
        shapes: the lengths and row counts that batches are padded to; None: each is padded to its longest
            row.

    Attributes:
        trunk: the cached outputs of the frozen trunk for every row; None without `train.trunk_cache`.
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
        """With `train.trunk_cache`, run the frozen trunk over all rows, once."""
        if not self.training.trunk_cache or self.trunk is not None:
            return
        if self.processes.world > 1:
            raise WeftError("train.trunk_cache: expected one process; set it to false to train with several")
        device = next(self.model.parameters()).device
        under = precision(self.training, device)
        self.trunk = TrunkCache(self.model, self.train, self.ids.tolist(), under)

    def model_inputs(self, inputs: Mapping[str, Tensor]) -> dict[str, Any]:
        """The keyword arguments of the model: a batch's inputs, and the cached trunk outputs of its rows."""
        keywords: dict[str, Any] = dict(inputs)
        if self.trunk is not None:
            keywords["trunk"] = self.trunk.of(keywords.pop(TRUNK_ROWS), keywords["input_ids"].size(1))
        return keywords

    def prepare(self, step: Step) -> PreparedStep:
        """A step with its micro-batches; none if the tasks' gradients are merged."""
        if self.training.conflict is not None:
            return PreparedStep(step, [])
        return PreparedStep(step, list(self.of(step)))

    def of(self, step: Step) -> Iterator[MicroBatch]:
        """This process's micro-batches of a step.

        Every process has equally many, and none is empty: processes synchronize in each.
        """
        for chunk in np.array_split(np.arange(len(step.task)), self.training.accumulate):
            if len(chunk):
                local = self.processes.cut(chunk)
                if len(local):
                    yield self.microbatch(step.task[local], step.index[local], step.weight[local])
                else:
                    first = chunk[:1]
                    yield self.microbatch(step.task[first], step.index[first], np.zeros(1, np.float32))

    def microbatch(
        self, tasks: Ints, index: Ints, weight: NDArray[np.float32], shape: Shape | None = None
    ) -> MicroBatch:
        """The micro-batch of these examples.

        Args:
            tasks: the plan's task of each, [E].
            index: the number of each example within its task, [E].
            weight: the weight of each by the plan's loss rule, [E].
            shape: what the batch is padded to; None: as `shapes` decides.
        """
        weight = weight * self._label_weights(tasks, index)
        return MicroBatch(tasks, weight, self.batch(tasks, index, shape))

    def batch(self, tasks: Ints, index: Ints, shape: Shape | None = None) -> TrainingBatch:
        """The rows and targets of these examples, on the host; tasks and index [E]."""
        items = [(self.train[t], i) for t, i in zip(tasks.tolist(), index.tolist(), strict=True)]
        if shape is None and self.shapes is not None:
            shape = self.shapes.of(tasks, index)
        fixed: dict[str, Any] = {} if shape is None else shape._asdict()
        batch = make_batch(self.model, items, self.ids[tasks], HOST, **fixed)
        if self.trunk is not None:
            rows = self.trunk.rows(items, batch.inputs["task"].size(0))
            batch.inputs[TRUNK_ROWS] = torch.from_numpy(rows)
        return batch

    def _label_weights(self, tasks: Ints, index: Ints) -> NDArray[np.float32]:
        """The weight of each example's label, [E]; 1 if its task has no class weights."""
        label_weights = np.ones(len(tasks), np.float32)
        for t in np.unique(tasks).tolist():
            weights = self._class_weights[t]
            if weights is not None:
                labels: Any = self.train[t].labels
                for position in np.flatnonzero(tasks == t).tolist():
                    label_weights[position] = weights[labels[int(index[position])]]
        return label_weights
