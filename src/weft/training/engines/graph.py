"""The engine `graph`: the whole step as one CUDA graph per batch shape.

Forward, loss, backward, clipping and optimizers are captured once; a step is then two copies and one launch.
Everything that differs between steps is data in fixed buffers: rows, targets, weights, learning rates and
which owners are absent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from weft.acceleration.cuda_graph import Capturer
from weft.acceleration.packed import views
from weft.acceleration.patch import PatchStack
from weft.training.engines.capturable_optimizers import CapturableOptimizers
from weft.training.engines.captured import (
    INPUT,
    LABEL,
    ONLY,
    Captured,
    Pass,
    lanes_of,
    mask_one,
    one_task,
    packed_batch,
    tensors_of,
    tensors_of_batch,
)
from weft.training.engines.device_losses import DeviceLosses
from weft.training.engines.engine import Engine, EngineFailed, Measures, Move
from weft.training.engines.graph_check import check_capture, check_measure
from weft.training.engines.verifier import Verifier
from weft.training.optim.clip import clip_by
from weft.training.optim.precision import precision
from weft.training.optim.soft_sharing import soft_sharing_of
from weft.training.step.gradients import Penalty, StepGradients
from weft.training.step.microbatches import MicroBatch, Packed, PreparedStep
from weft.training.step.task_losses import Floats, TaskLosses

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.model.output import Output
    from weft.sampling.plan.plan import Candidates
    from weft.training.engines.probe import Probe
    from weft.training.optim.owners import OwnerOptimizers
    from weft.training.settings import Training
    from weft.utils.processes import Processes


class GraphEngine(Engine):
    """Runs steps as captured graphs.

    A graph is captured when the first batch of its shape occurs, on that batch with every weight 0 and every
    owner absent, so that the warm-up changes no weights, optimizer states or random generators.

    Under `separate` each task has a whole encoder and therefore separate graphs: the task's id is part of a
    batch's form, and a batch of several tasks cannot run.

    Args:
        gradients: builds the batches of a run, each padded to one of a few shapes.
        optimizers: the optimizer of each owner.
        penalty: added to the loss of every step; None: nothing.
        patch_stack: the reversible patches of the model in training, including compiled blocks.
        verifier: compares captured shapes with uncompiled ones; None: no verification.
    """

    name = "graph"
    compiles = True

    def __init__(
        self,
        gradients: StepGradients,
        optimizers: OwnerOptimizers,
        penalty: Penalty | None = None,
        patch_stack: PatchStack | None = None,
        verifier: Verifier | None = None,
    ) -> None:
        super().__init__(gradients, optimizers, penalty, patch_stack, verifier)
        self.model, self.training, self.device = gradients.model, gradients.training, gradients.device
        self._capture = Capturer(self.device)
        tasks = len(gradients.names)
        self._capturable = CapturableOptimizers(optimizers, more=3 + tasks)
        more = self._capturable.more
        self._number, self._max_norm, self._present, self._factors = more[0], more[1], more[2], more[3:]
        self._losses = DeviceLosses(gradients.names, self.device)
        self._passes: dict[tuple[Any, ...], Captured] = {}
        self._measures: dict[tuple[Any, ...], Captured] = {}
        self._update: Callable[[], None] | None = None
        self._whole = self.training.accumulate == 1
        self._trained = [p for p in self.model.parameters() if p.grad is not None]

    @classmethod
    def why_not(cls, model: Model, training: Training, processes: Processes) -> str | None:
        """See `Engine`. Under `separate` a graph is for one task, and every step must have one task."""
        device = next(model.parameters()).device
        if model.method.separate and training.mixed:
            return "method 'separate' has a different number of rows per task's encoder in every step"
        if device.type != "cuda":
            return f"a graph needs a CUDA GPU, and the model is on {device.type}"
        soft = soft_sharing_of(model)
        if soft is not None and soft.trace_norm:
            return "the trace norm of soft sharing is found by eigenvalues, which a graph cannot compute"
        if processes.world > 1:
            return "several processes communicate inside the step"
        if any(getattr(module, "gradient_checkpointing", False) for module in model.encoder.modules()):
            return "gradient checkpointing reads the state of the random generator inside a step"
        return None

    @classmethod
    def priority(cls, device: torch.device) -> int | None:
        """See `Engine`."""
        return 10 if device.type == "cuda" else None

    @classmethod
    def variant(cls, training: Training) -> type[Engine]:
        """See `Engine`: with `train.conflict` each task of a step has a separate pass."""
        if training.conflict is None:
            return cls
        from weft.training.engines.graph_by_task import GraphByTask

        return GraphByTask

    @property
    def shapes(self) -> int:
        """The number of captured passes."""
        return len(self._passes) + len(self._measures)

    def prepare(self, prepared: PreparedStep) -> PreparedStep:
        """See `Engine`: each micro-batch is packed into one buffer, for one copy to the device."""
        packed = [self._packed(tensors_of(microbatch)) for microbatch in prepared.microbatches]
        return replace(prepared, packed=packed)

    def step(self, prepared: PreparedStep, move: Move) -> None:
        """See `Engine`."""
        number = prepared.step.number
        # everything is captured before the step's numbers are set: in a capture all owners are absent
        ready = []
        pairs = zip(prepared.microbatches, prepared.packed, strict=True)
        for count, (microbatch, packed) in enumerate(pairs):
            ready.append((self._pass_of(packed), packed))
            if self.probe is not None and self.probe.is_new(packed.form):
                purpose = f"dropout {count}"
                check_capture(self, self.probe, ready[-1][0], packed, [microbatch], number, purpose)
        self._begin(number, move)
        for count, (captured, packed) in enumerate(ready):
            self._replay(captured, packed, number, f"dropout {count}")
        if self._update is not None:
            self._update()

    def _begin(self, number: int, move: Move) -> None:
        """Copy the numbers of a step to the device; before that, a separate update is captured."""
        if not self._whole and self._update is None:
            with self._without_trace():
                self._update = self._captured(self._step_optimizers)
        factors = np.ones(len(self._factors), np.float32) if move.factors is None else move.factors
        max_norm = math.inf if self.training.clip is None else self.training.clip
        more = np.concatenate([[number, max_norm, len(move.present)], factors]).astype(np.float32)
        self._capturable.set(move.factor, move.peak, move.present, move.drifting, more)
        # a captured update changes parameters without counting it
        self.model.body.outdate()

    def _replay(self, captured: Captured, packed: Packed, number: int, purpose: str) -> None:
        """Run a captured pass over a batch, with the dropout of a purpose."""
        self.gradients.seed(number, purpose)
        captured.memory.copy_(packed.memory, non_blocking=True)
        captured.run()

    def losses(self) -> TaskLosses:
        """See `Engine`; this waits for the device."""
        return self._losses.take(self.training)

    def measured(self, candidates: Candidates, measures: Measures, dropout: bool) -> Floats:
        """See `Engine`; the pass over the candidates is captured too."""
        if self.probe is not None:
            self.probe.check_candidates(candidates)
        count = len(candidates.task)
        measured = np.zeros(count)
        for number, chunk in enumerate(np.array_split(np.arange(count), self.training.accumulate)):
            if len(chunk) == 0:
                continue
            purpose, tasks = f"candidates {number}", candidates.task[chunk]
            batch = self.gradients.microbatches.batch(tasks, candidates.index[chunk])
            packed = self._packed(tensors_of_batch(batch))
            captured = self._measure_of(packed, measures, dropout)
            if self.probe is not None and self.probe.is_new(("measured", packed.form)):
                check_measure(self, self.probe, captured, packed, tasks, candidates.number, purpose)
            self.model.body.refresh()
            self._replay(captured, packed, candidates.number, purpose)
            measured[chunk] = captured.values[0][: len(chunk)].double().cpu().numpy()
        return measured

    def close(self) -> None:
        """See `Engine`."""
        self._passes, self._measures, self._update = {}, {}, None
        self._capturable.release()
        for parameter in self._trained:  # their gradients are in the memory of a graph
            parameter.grad = torch.zeros_like(parameter)
        super().close()

    def _packed(self, tensors: dict[str, Tensor]) -> Packed:
        return packed_batch(tensors, self.model.method.separate, self.device.type == "cuda")

    def _pass_of(self, packed: Packed) -> Captured:
        if packed.form not in self._passes:

            def run(batch: dict[str, Tensor], values: list[Tensor]) -> None:
                values[:] = [self._pass(batch)]
                if self._whole:
                    self._step_optimizers()

            self._passes[packed.form] = self._capture_pass(packed, run)
        return self._passes[packed.form]

    def _measure_of(self, packed: Packed, measures: Measures, dropout: bool) -> Captured:
        if packed.form not in self._measures:

            @torch.no_grad()
            def run(batch: dict[str, Tensor], values: list[Tensor]) -> None:
                output, labels = self._forward(batch, dropout)
                values[:] = [measures(output, labels)]

            self._measures[packed.form] = self._capture_pass(packed, run)
        return self._measures[packed.form]

    def _capture_pass(self, packed: Packed, run: Pass) -> Captured:
        """Capture a pass over batches of this form, on this batch, without side effects."""
        if any(field.name == ONLY for field in packed.form):
            raise EngineFailed("method 'separate' has one graph per task, and this batch has several tasks")
        memory = packed.memory.to(self.device, copy=True)
        batch = views(memory, packed.form)
        for lane in lanes_of(batch):
            if "weight" in lane:
                lane["weight"].zero_()
        mask_one(batch)
        values: list[Tensor] = []
        with self._without_trace():
            return Captured(memory, packed.form, self._captured(lambda: run(batch, values)), values, run)

    def _captured(self, function: Callable[[], None]) -> Callable[[], None]:
        try:
            return self._capture(function)
        except RuntimeError as why:  # of the driver or the compiler; a bug in the step raises other errors
            raise EngineFailed(f"{type(why).__name__}: {str(why).strip().splitlines()[0]}") from why

    @contextmanager
    def _without_trace(self) -> Iterator[None]:
        """Inside, every owner is absent; at the end the host's random generator is restored."""
        state = torch.get_rng_state()
        self._capturable.absent.fill_(1.0)
        try:
            yield
        finally:
            torch.set_rng_state(state)

    @contextmanager
    def trial(self, number: int) -> Iterator[None]:
        """Inside, passes weigh their examples as in a step, but update no owner and have no side effects.

        Args:
            number: the number of the step.
        """
        buffers = (self._capturable.numbers, self._losses.sums, self._losses.diverged_at)
        before = [(buffer, buffer.clone()) for buffer in buffers]
        gradients = [parameter.grad for parameter in self._trained]
        with self._without_trace():
            self._number.fill_(number)
            self._max_norm.fill_(math.inf)  # clipping would hide gradients that are too large
            self._present.fill_(1.0)
            self._factors.fill_(1.0)
            try:
                yield
            finally:
                for buffer, value in before:
                    buffer.copy_(value)
                for parameter, gradient in zip(self._trained, gradients, strict=True):
                    parameter.grad = gradient
                for owner in self.optimizers.optimizers:
                    self.optimizers.follow(owner)
                if not self._whole:
                    self.optimizers.zero_grad()

    def norms(self, probe: Probe, microbatches: Sequence[MicroBatch]) -> dict[str, float]:
        """The norm of each owner's gradient after a pass over micro-batches, for verification."""
        return probe.norms()

    def _forward(self, batch: dict[str, Tensor], training: bool) -> tuple[Output, dict[str, Tensor]]:
        inputs = {k.removeprefix(INPUT): x for k, x in batch.items() if k.startswith(INPUT)}
        labels = {k.removeprefix(LABEL): x for k, x in batch.items() if k.startswith(LABEL)}
        self.model.train(training)
        with precision(self.training, self.device), one_task(self.model, batch):
            keywords = self.gradients.microbatches.model_inputs(inputs)
            output = self.model.run(**keywords, examples=batch["examples"].size(0))
        return output, labels

    def _pass(self, batch: dict[str, Tensor]) -> Tensor:
        """Add the gradients of a micro-batch to `p.grad`, and return the loss of each example, [E]."""
        if self._whole:
            # None instead of zeros to add to: backward then writes the step's gradients directly
            for parameter in self._trained:
                parameter.grad = None
        output, labels = self._forward(batch, True)
        tasks, weight = batch["tasks"], batch["weight"]
        losses = self.model.example_losses(output, labels)[: len(weight)]
        (losses * (weight * self._factors[tasks])).sum().backward()
        self._losses.add(losses, tasks, weight, self._number)
        return losses.detach()

    def _step_optimizers(self) -> None:
        """Update every owner that is not absent; accumulated gradients are then set to zero."""
        if self.penalty is not None:
            self.penalty().backward()
        if self.training.clip is not None:
            self.optimizers.clip(self._max_norm, clip_by(self.training))
        for parameter in self._trained:
            if parameter.grad is None:  # not used in this pass, but its moments decay all the same
                parameter.grad = torch.zeros_like(parameter)
        self._capturable.step()
        if not self._whole:
            self.optimizers.zero_grad()
