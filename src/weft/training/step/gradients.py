"""The gradients of one step: forward and backward passes over its micro-batches, in one process or several.

    loss = Σ_e weight_e · label_weight_e · factor_task(e) · ℓ_e

The weights are relative to the whole step, so micro-batches and processes are simply summed. If the tasks'
gradients are merged (`train.conflict`), each task of a micro-batch has a separate forward and backward pass.
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
from weft.errors import Diverged, train_key
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
"""Runs a pass that measures candidates, [E], and may verify it against the uncompiled pass."""


class StepGradients:
    """Computes the gradients of steps.

    Args:
        model: the model, on its device.
        microbatches: builds the batches.
        names: the names of the tasks of the plan, [T].

    Attributes:
        merged: merges the gradients of the tasks (`train.conflict`); None: they are summed.
    """

    def __init__(self, model: Model, microbatches: MicroBatches, names: list[str]) -> None:
        self.model, self.microbatches, self.names = model, microbatches, names
        self.training: Training = microbatches.training
        self.processes: Processes = microbatches.processes
        self.device = next(model.parameters()).device
        self.merged: TaskGradients | None = None
        self.runs: nn.Module = model
        self.arrange()

    def arrange(self) -> None:
        """Set up for the parameters that train now: gradient merging, or DDP with several processes."""
        if self.training.conflict is not None:
            from weft.training.conflict import build_conflict
            from weft.training.conflict.gradients import TaskGradients

            conflict = build_conflict(self.training.conflict)
            before = self.merged
            self.merged = TaskGradients(
                self.model, conflict, self.names, self.microbatches.ids.tolist(), self.processes
            )
            if before is not None:
                self.merged.load(before.state())
        # One process needs no DDP. Merging sums each task's gradients itself, and FSDP reduces sharded
        # blocks. Under `separate` a process runs only the encoders of the tasks of its examples, and DDP
        # would wait for the other encoders forever.
        if (
            self.processes.world == 1
            or self.merged is not None
            or self.training.parallel == "fsdp"
            or self.model.method.separate
        ):
            return
        from torch.nn.parallel import DistributedDataParallel

        # every parameter is in every batch's graph, if only with weight 0: no find_unused_parameters
        devices = None if self.device.type == "cpu" else [self.device]
        # buffers are constants; the argument for that has had two names
        known = inspect.signature(DistributedDataParallel).parameters
        sync = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        wrapped = DistributedDataParallel(self.model, devices, **{sync: False})  # type: ignore[arg-type]
        wrapped.register_comm_hook(None, _summed)
        self.runs = wrapped

    def of(
        self, prepared: PreparedStep, factors: NDArray[np.float32] | None, penalty: Penalty | None
    ) -> TaskLosses:
        """Compute the gradients of a step; `p.grad` must be zero before.

        Args:
            prepared: the step and its micro-batches.
            factors: the factor on each task's loss, [T]; None: 1.
            penalty: added to the loss of the step, whatever the examples.

        Returns:
            The losses of this process's examples.
        """
        losses = TaskLosses.zero(len(self.names))
        if self.merged is not None:
            self._each_task(prepared.step, factors, losses)
            if penalty is not None:
                penalty().backward()
            return losses
        number = prepared.step.number
        for count, microbatch in enumerate(prepared.microbatches, 1):
            last = count == len(prepared.microbatches)
            with nullcontext() if last else self._unsynced():
                loss = self._loss(number, microbatch, f"dropout {count - 1}", factors, losses)
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
        """Measure the model's uncertainty of candidates, [C], in forward passes that mix all tasks.

        On a CPU the candidates are split into length-bucketed batches of about `batch_size`: a pass costs as
        much as it has tokens, padding included, and tasks differ in text length. A GPU runs them together.

        Args:
            candidates: the examples.
            measures: computes one number per example, [E], from an output and its labels.
            dropout: whether dropout is on, as in training.
            verified: called to run each pass, with its batch and the tasks of its examples; None: passes run
                unverified.
        """
        count = len(candidates.task)
        measured = np.zeros(count)
        order, chunks = np.arange(count), self.training.accumulate
        if self.device.type == "cpu":
            pairs = zip(candidates.task.tolist(), candidates.index.tolist(), strict=True)
            order = np.argsort([self.microbatches.train[t].lengths[i] for t, i in pairs], kind="stable")
            chunks = max(chunks, -(-count // self.training.batch_size))
        for number, chunk in enumerate(np.array_split(order, chunks)):
            local = self.processes.cut(chunk)
            if len(chunk) == 0 or (len(local) == 0 and self.training.parallel == "ddp"):
                continue
            rows = local if len(local) else chunk[:1]  # sharded blocks are gathered by all processes or none
            tasks = candidates.task[rows]
            batch = self.microbatches.batch(tasks, candidates.index[rows])

            def run(number: int = number, batch: TrainingBatch = batch) -> Tensor:
                self.seed(candidates.number, f"candidates {number}")
                self.model.train(dropout)
                return measures(*self._run(batch))

            values = run() if verified is None else verified(batch, tasks, run)
            if len(local):
                measured[local] = values[: len(local)].double().cpu().numpy()
        return self.processes.sum_array(measured)

    def _each_task(self, step: Step, factors: NDArray[np.float32] | None, losses: TaskLosses) -> None:
        """Run one pass per task and micro-batch; gradients of shared parameters are merged at the end."""
        assert self.merged is not None
        self.merged.zero()
        present = np.unique(step.task[: step.real])
        real = np.arange(step.real)
        for number, chunk in enumerate(np.array_split(real, self.training.accumulate)):
            for task in present.tolist():
                local = self.processes.cut(chunk[step.task[chunk] == task])
                if len(local):
                    purpose = f"dropout {number} {task}"
                    microbatch = self.microbatches.microbatch(
                        step.task[local], step.index[local], step.weight[local]
                    )
                    loss = self._loss(step.number, microbatch, purpose, factors, losses)
                    (loss * len(present)).backward()
                    self.merged.after_backward(task)
        self.merged.finish(step_seed(self.training.seed, step.number, 0, "conflict"))

    def _loss(
        self,
        step: int,
        microbatch: MicroBatch,
        purpose: str,
        factors: NDArray[np.float32] | None,
        losses: TaskLosses,
    ) -> Tensor:
        """Σ weight·ℓ over the examples of a micro-batch, []."""
        self.seed(step, purpose)
        self.model.train()
        output, labels = self._run(microbatch.batch)
        weight = microbatch.weight
        scale = weight if factors is None else weight * factors[microbatch.tasks]
        # a batch padded to a fixed number of rows has one more example, which does not count
        example_losses = self.model.example_losses(output, labels)[: len(scale)]
        self._note(step, example_losses.detach().double().cpu().numpy(), microbatch, losses)
        return (example_losses * torch.from_numpy(scale).to(self.device)).sum()

    def _run(self, batch: TrainingBatch) -> tuple[Output, dict[str, Tensor]]:
        batch = batch.to(self.device)
        # without a gradient there is nothing to sum over processes
        run = self.runs if torch.is_grad_enabled() else self.model
        with precision(self.training, self.device):
            inputs = self.microbatches.model_inputs(batch.inputs)
            output: Output = run(**inputs, examples=batch.examples)
        return output, batch.labels

    def _note(self, step: int, values: Floats, microbatch: MicroBatch, losses: TaskLosses) -> None:
        """Add the loss of each example, [E], to the tasks' losses; a loss that is not finite ends the run."""
        tasks, weight = microbatch.tasks, microbatch.weight
        counted = weight != 0
        odd = np.flatnonzero(counted & ~np.isfinite(values))
        if len(odd):
            raise diverged(step, self.names[tasks[odd[0]]], float(values[odd[0]]), self.training)
        tasks, values, weight = tasks[counted], values[counted], weight[counted]
        count = len(self.names)
        losses.loss += np.bincount(tasks, values, count)
        losses.examples += np.bincount(tasks, minlength=count)
        losses.weighted += np.bincount(tasks, values * weight, count)

    def seed(self, step: int, purpose: str) -> None:
        """Seed torch for one pass of a step, so that a resumed run draws the same random numbers."""
        torch.manual_seed(step_seed(self.training.seed, step, self.processes.rank, purpose))

    def _unsynced(self) -> AbstractContextManager[object]:
        return nullcontext() if self.runs is self.model else self.runs.no_sync()  # type: ignore[operator]


def diverged(step: int, task: str, loss: float, training: Training) -> Diverged:
    """The error that ends a run whose loss is not finite."""
    return Diverged(
        f"step {step}: the loss of task {task!r} is {loss}; the run diverged.\n  {after_divergence(training)}"
    )


def after_divergence(training: Training) -> str:
    """What to do after a run has diverged."""
    clip = "set" if training.clip is None else f"below {training.clip:g}"
    return f"start again with {train_key('lr')} below {training.lr:g}, or with {train_key('clip')} {clip}"


def sharded(model: Model, training: Training, processes: Processes) -> None:
    """Shard the encoder over the processes, if fsdp is configured and there are several."""
    if processes.world > 1 and training.parallel == "fsdp":
        shard_blocks(model, processes)


def step_seed(seed: int, step: int, rank: int, purpose: str) -> int:
    """The seed of torch for one purpose in a step; it does not depend on the steps before."""
    return int(draw_key(seed, purpose, step, rank)) >> 1


# without types: DDP inspects the annotations and does not accept strings
def _summed(_, bucket):  # type: ignore[no-untyped-def]
    """A communication hook for DDP: the sum of the gradients instead of the mean."""
    import torch.distributed as dist

    work: Any = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda done: done.value()[0])
