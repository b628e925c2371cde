"""The gradients of one step: its parts, forward and backward, over one process or several.

    loss = Σ_e weight_e · label_weight_e · factor_task(e) · ℓ_e

Every term has its weight from the whole step, so that parts and processes only have to sum. Where tasks'
gradients are merged (`train.conflict`), each task of a part has a forward and backward pass by itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weft.data.batching.batch import TrainingBatch
from weft.errors import RunFailed
from weft.sampling.plan.plan import Candidates, Step
from weft.training.optim.precision import precision
from weft.training.optim.sharding import shard_blocks, sum_gradients
from weft.training.settings import Training
from weft.training.step.microbatches import MicroBatch, MicroBatches, PreparedStep
from weft.training.step.task_losses import Floats, TaskLosses
from weft.utils.counter_rng import Ints, draw_key
from weft.utils.processes import Processes

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.model.output import Output
    from weft.training.conflict.gradients import TaskGradients

Penalty = Callable[[], Tensor]
Measures = Callable[["Output", Mapping[str, Tensor]], Tensor]
Verified = Callable[[TrainingBatch, Ints, Callable[[], Tensor]], Tensor]
"""Runs a pass that measures candidates, [E], and may compare it with another way to run it."""


class StepGradients:
    """Computes the gradients of steps.

    Args:
        model: the model, on its device.
        parts: what makes the batches.
        names: the tasks of the plan, [T].

    Attributes:
        merged: each task's gradients, where they are merged; None: they are summed.
    """

    def __init__(self, model: Model, parts: MicroBatches, names: list[str]) -> None:
        self.model, self.parts, self.names = model, parts, names
        self.training: Training = parts.training
        self.processes: Processes = parts.processes
        self.device = next(model.parameters()).device
        self.merged: TaskGradients | None = None
        self.runs: nn.Module = model
        self.arrange()

    def arrange(self) -> None:
        """See to what trains now: keep tasks' gradients apart, or meet the other processes."""
        if self.training.conflict is not None:
            from weft.training.conflict import build_conflict
            from weft.training.conflict.gradients import TaskGradients

            conflict = build_conflict(self.training.conflict)
            before = self.merged
            self.merged = TaskGradients(
                self.model, conflict, self.names, self.parts.ids.tolist(), self.processes
            )
            if before is not None:
                self.merged.load(before.state())
        # With one process there is no one to meet. Merging sums each task's gradients by itself, and sharded
        # blocks are reduced by FSDP; of `separate` a process runs the encoders of its own examples' tasks
        # alone, which DDP would wait for in vain.
        if (
            self.processes.world == 1
            or self.merged is not None
            or self.training.parallel == "fsdp"
            or self.model.method.separate
        ):
            return
        from torch.nn.parallel import DistributedDataParallel

        # every parameter is in every batch's graph, be it with weight 0: none has to be searched for
        on = None if self.device.type == "cpu" else [self.device]
        # buffers are constants; the setting that says so has had two names
        known = inspect.signature(DistributedDataParallel).parameters
        sync = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        wrapped = DistributedDataParallel(self.model, on, **{sync: False})  # type: ignore[arg-type]
        wrapped.register_comm_hook(None, _summed)
        self.runs = wrapped

    def of(
        self, prepared: PreparedStep, factors: NDArray[np.float32] | None, penalty: Penalty | None
    ) -> TaskLosses:
        """Fill the gradients, which are zero before, with those of a step.

        Args:
            prepared: the step and its parts.
            factors: what each task's loss is multiplied by, [T]; None: 1.
            penalty: what is added to the step's loss, whatever the examples.

        Returns:
            The losses of this process's part of the examples.
        """
        losses = TaskLosses.zero(len(self.names))
        if self.merged is not None:
            self._each_task(prepared.step, factors, losses)
            if penalty is not None:
                penalty().backward()
            return losses
        number = prepared.step.number
        for count, part in enumerate(prepared.parts, 1):
            last = count == len(prepared.parts)
            with nullcontext() if last else self._unsynced():
                loss = self._loss(number, part, f"dropout {count - 1}", factors, losses)
                if last and penalty is not None:
                    loss = loss + penalty() / self.processes.world
                loss.backward()
        if self.processes.world > 1 and self.runs is self.model:
            sum_gradients(self.model.parameters(), self.processes)
        return losses

    @torch.no_grad()
    def measured(
        self, candidates: Candidates, measures: Measures, dropout: bool, verified: Verified | None = None
    ) -> Floats:
        """What the model thinks of candidates, [C]: a forward pass over all tasks together.

        On a CPU it is cut into parts of like length, as many as there are batches in it: a pass costs what it
        has tokens, padding included, and tasks' texts differ in length. A GPU has it whole.

        Args:
            candidates: the examples.
            measures: of an output and its labels, a number an example, [E].
            dropout: whether it runs as in training.
            verified: what runs each pass, given its batch and the tasks of its examples; None: it is run.
        """
        count = len(candidates.task)
        found = np.zeros(count)
        places, parts = np.arange(count), self.training.accumulate
        if self.device.type == "cpu":
            pairs = zip(candidates.task.tolist(), candidates.index.tolist(), strict=True)
            places = np.argsort([self.parts.train[t].lengths[i] for t, i in pairs], kind="stable")
            parts = max(parts, -(-count // self.training.batch_size))
        for number, part in enumerate(np.array_split(places, parts)):
            mine = self.processes.cut(part)
            if len(part) == 0 or (len(mine) == 0 and self.training.parallel == "ddp"):
                continue
            own = mine if len(mine) else part[:1]  # sharded blocks are gathered by all processes or none
            tasks, batch = candidates.task[own], self.parts.batch(candidates.task[own], candidates.index[own])

            def run(number: int = number, batch: TrainingBatch = batch) -> Tensor:
                self.seed(candidates.number, f"candidates {number}")
                self.model.train(dropout)
                return measures(*self._run(batch))

            values = run() if verified is None else verified(batch, tasks, run)
            if len(mine):
                found[mine] = values[: len(mine)].double().cpu().numpy()
        return self.processes.sum_array(found)

    def _each_task(self, step: Step, factors: NDArray[np.float32] | None, losses: TaskLosses) -> None:
        """A pass for each task of each part; what tasks share is merged at the end."""
        assert self.merged is not None
        self.merged.zero()
        present = np.unique(step.task[: step.real])
        real = np.arange(step.real)
        for number, part in enumerate(np.array_split(real, self.training.accumulate)):
            for task in present.tolist():
                mine = self.processes.cut(part[step.task[part] == task])
                if len(mine):
                    purpose = f"dropout {number} {task}"
                    own = self.parts.part(step.task[mine], step.index[mine], step.weight[mine])
                    loss = self._loss(step.number, own, purpose, factors, losses)
                    (loss * len(present)).backward()
                    self.merged.after_backward(task)
        self.merged.finish(step_seed(self.training.seed, step.number, 0, "conflict"))

    def _loss(
        self,
        step: int,
        part: MicroBatch,
        purpose: str,
        factors: NDArray[np.float32] | None,
        losses: TaskLosses,
    ) -> Tensor:
        """Σ weight·ℓ over the examples of a part, []."""
        self.seed(step, purpose)
        self.model.train()
        output, labels = self._run(part.batch)
        scale = part.weight if factors is None else part.weight * factors[part.tasks]
        # a batch padded to a fixed number of rows has an example more, which no one lost
        found = self.model.example_losses(output, labels)[: len(scale)]
        self._note(step, found.detach().double().cpu().numpy(), part, losses)
        return (found * torch.from_numpy(scale).to(self.device)).sum()

    def _run(self, batch: TrainingBatch) -> tuple[Output, dict[str, Tensor]]:
        batch = batch.to(self.device)
        # without a gradient there is nothing to sum over processes
        run = self.runs if torch.is_grad_enabled() else self.model
        with precision(self.training, self.device):
            given = self.parts.given(batch.inputs)
            output: Output = run(**given, examples=batch.examples)
        return output, batch.labels

    def _note(self, step: int, found: Floats, part: MicroBatch, losses: TaskLosses) -> None:
        counted = part.weight != 0
        odd = np.flatnonzero(counted & ~np.isfinite(found))
        if len(odd):
            raise diverged(step, self.names[part.tasks[odd[0]]], float(found[odd[0]]), self.training)
        tasks, found, weight = part.tasks[counted], found[counted], part.weight[counted]
        count = len(self.names)
        losses.loss += np.bincount(tasks, found, count)
        losses.examples += np.bincount(tasks, minlength=count)
        losses.part += np.bincount(tasks, found * weight, count)

    def seed(self, step: int, purpose: str) -> None:
        """Seed torch for one pass of a step: resumed or not, each draws the same."""
        torch.manual_seed(step_seed(self.training.seed, step, self.processes.rank, purpose))

    def _unsynced(self) -> AbstractContextManager[object]:
        return nullcontext() if self.runs is self.model else self.runs.no_sync()  # type: ignore[operator]


def diverged(step: int, task: str, loss: float, training: Training) -> RunFailed:
    """What a run ends with when a loss is no number."""
    return RunFailed(
        f"step {step}: the loss of task {task!r} is {loss}; the run diverged.\n"
        f"  begin anew with train.lr below {training.lr}, or with train.clip set"
    )


def sharded(model: Model, training: Training, processes: Processes) -> None:
    """Spread the encoder over the processes, where that is asked for and there are several."""
    if processes.world > 1 and training.parallel == "fsdp":
        shard_blocks(model, processes)


def step_seed(seed: int, step: int, rank: int, purpose: str) -> int:
    """What torch is seeded with in a step: resumed or not, each step draws the same."""
    return int(draw_key(seed, purpose, step, rank)) >> 1


# without types: DDP looks at the annotation itself, and a string is none that it knows
def _summed(_, bucket):  # type: ignore[no-untyped-def]
    """DDP's way of meeting: the sum of the gradients, not the mean."""
    import torch.distributed as dist

    work: Any = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda done: done.value()[0])
