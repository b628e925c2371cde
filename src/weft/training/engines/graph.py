"""The whole step as one CUDA graph for each shape of batch.

Forward, loss, backward, clip and optimisers are captured once; a step then is two copies and one launch. What
differs from step to step is data in fixed places: rows, targets, weights, learning rates, who is absent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from weft.acceleration.cuda_graph import Capturer
from weft.acceleration.packed import fields_of, pack, views
from weft.acceleration.patch import PatchStack
from weft.training.engines.capturable_optimizers import CapturableOptimizers
from weft.training.engines.captured import INPUT, LABEL, ONLY, Captured, Pass, tensors_of, tensors_of_batch
from weft.training.engines.engine import Engine, EngineFailed, Measures, Move
from weft.training.engines.graph_check import check_capture, check_measure
from weft.training.engines.verifier import Verifier
from weft.training.optim.clip import clip_by
from weft.training.optim.precision import precision
from weft.training.step.gradients import Penalty, StepGradients, diverged
from weft.training.step.microbatches import Packed, PreparedStep
from weft.training.step.task_losses import Floats, TaskLosses

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.model.output import Output
    from weft.sampling.plan.plan import Candidates
    from weft.training.optim.owners import OwnerOptimizers
    from weft.training.settings import Training
    from weft.utils.processes import Processes


class GraphEngine(Engine):
    """Runs steps as captured graphs.

    A graph is captured when the first batch of its shape comes, on that batch with every weight 0 and every
    owner absent, so that warming up leaves weights, optimisers and random numbers as they were.

    Under `separate` a task has a whole encoder, and so graphs, of its own: its id is part of a batch's form,
    and a batch of several tasks cannot run.

    Args:
        gradients: what makes the batches of a run, each padded to one of a few shapes.
        optimizers: each owner's optimiser.
        penalty: what is added to every step's loss; None: nothing.
        patch_stack: what the model wears while it trains, compiled pieces among it.
        verifier: what compares captured shapes with uncompiled ones; None: nothing does.

    Attributes:
        shapes: how many graphs there are.
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
        self._masked = CapturableOptimizers(optimizers, more=2 + tasks)
        self._number, self._limit, self._factors = (
            self._masked.more[0],
            self._masked.more[1],
            self._masked.more[2:],
        )
        self._tally = torch.zeros(3, tasks, dtype=torch.float64, device=self.device)
        self._odd = torch.full((), math.inf, device=self.device)  # the first step with a loss that is none
        self._passes: dict[tuple[Any, ...], Captured] = {}
        self._measures: dict[tuple[Any, ...], Captured] = {}
        self._update: Callable[[], None] | None = None
        self._whole = self.training.accumulate == 1
        self._trained = [p for p in self.model.parameters() if p.grad is not None]

    @classmethod
    def why_not(cls, model: Model, training: Training, processes: Processes) -> str | None:
        """See `Engine`. Under `separate` a graph is of one task, and so must every step be."""
        device = next(model.parameters()).device
        if model.method.separate and training.mixed:
            return "method 'separate' sends other numbers of rows through each task's encoder every step"
        if device.type != "cuda":
            return f"a graph needs a CUDA GPU, and the model is on {device.type}"
        if training.conflict is not None:
            return "train.conflict runs each task by itself, with other numbers of rows every step"
        if processes.world > 1:
            return "several processes meet inside the step"
        if any(getattr(module, "gradient_checkpointing", False) for module in model.encoder.modules()):
            return "gradient checkpointing reads the state of the random numbers in the middle of a step"
        return None

    @classmethod
    def priority(cls, device: torch.device) -> int | None:
        """See `Engine`."""
        return 10 if device.type == "cuda" else None

    @property
    def shapes(self) -> int:
        """How many graphs of a pass there are."""
        return len(self._passes) + len(self._measures)

    def prepare(self, prepared: PreparedStep) -> PreparedStep:
        """See `Engine`: each part becomes one piece of memory, for one copy to the device."""
        return replace(prepared, packed=[self._packed(tensors_of(part)) for part in prepared.parts])

    def step(self, prepared: PreparedStep, move: Move) -> None:
        """See `Engine`."""
        number = prepared.step.number
        # all is captured before the step's numbers are set: nobody is present in a capture
        ready = []
        for count, (part, packed) in enumerate(zip(prepared.parts, prepared.packed, strict=True)):
            ready.append((self._pass_of(packed), packed))
            if self.probe is not None and self.probe.is_new(packed.form):
                check_capture(self, self.probe, ready[-1][0], packed, part, number, count)
        if not self._whole and self._update is None:
            with self._without_trace():
                self._update = self._captured(self._updated)
        factors = np.ones(len(self._factors), np.float32) if move.factors is None else move.factors
        limit = math.inf if self.training.clip is None else self.training.clip
        more = np.concatenate([[number, limit], factors]).astype(np.float32)
        self._masked.set(move.factor, move.peak, move.present, move.drifting, more)
        for count, (captured, packed) in enumerate(ready):
            self.gradients.seed(number, f"dropout {count}")
            captured.memory.copy_(packed.memory, non_blocking=True)
            captured.run()
        if self._update is not None:
            self._update()

    def losses(self) -> TaskLosses:
        """See `Engine`; this waits for the device."""
        found, odd = self._tally.to("cpu", copy=True).numpy(), float(self._odd)
        if math.isfinite(odd):
            task = int(np.flatnonzero(~np.isfinite(found[0]))[0])
            raise diverged(int(odd), self.gradients.names[task], float(found[0, task]), self.training)
        self._tally.zero_()
        return TaskLosses(found[0], found[1], found[2])

    def measured(self, candidates: Candidates, measures: Measures, dropout: bool) -> Floats:
        """See `Engine`; the pass over the candidates is a graph as well."""
        if self.probe is not None:
            self.probe.check_candidates(candidates)
        count = len(candidates.task)
        found = np.zeros(count)
        for number, part in enumerate(np.array_split(np.arange(count), self.training.accumulate)):
            if len(part) == 0:
                continue
            batch = self.gradients.parts.batch(candidates.task[part], candidates.index[part])
            packed = self._packed(tensors_of_batch(batch))
            captured = self._measure_of(packed, measures, dropout)
            purpose, tasks = f"candidates {number}", candidates.task[part]
            if self.probe is not None and self.probe.is_new(("measured", packed.form)):
                check_measure(self, self.probe, captured, packed, tasks, candidates.number, purpose)
            self.gradients.seed(candidates.number, purpose)
            captured.memory.copy_(packed.memory, non_blocking=True)
            captured.run()
            found[part] = captured.found[0][: len(part)].double().cpu().numpy()
        return found

    def close(self) -> None:
        """See `Engine`."""
        self._passes, self._measures, self._update = {}, {}, None
        self._masked.release()
        for parameter in self._trained:  # theirs is memory of a graph's
            parameter.grad = torch.zeros_like(parameter)
        super().close()

    def _packed(self, tensors: dict[str, Tensor]) -> Packed:
        if self.model.method.separate:
            ids = tensors[INPUT + "task"].unique().tolist()
            task = str(ids[0]) if len(ids) == 1 else ""
            tensors = {**tensors, ONLY + task: torch.zeros(0, dtype=torch.uint8)}
        return Packed(fields_of(tensors), pack(tensors, self.device.type == "cuda"))

    def _pass_of(self, packed: Packed) -> Captured:
        if packed.form not in self._passes:

            def run(batch: dict[str, Tensor], found: list[Tensor]) -> None:
                found[:] = [self._pass(batch)]
                if self._whole:
                    self._updated()

            self._passes[packed.form] = self._begin(packed, run)
        return self._passes[packed.form]

    def _measure_of(self, packed: Packed, measures: Measures, dropout: bool) -> Captured:
        if packed.form not in self._measures:

            @torch.no_grad()
            def run(batch: dict[str, Tensor], found: list[Tensor]) -> None:
                output, labels = self._forward(batch, dropout)
                found[:] = [measures(output, labels)]

            self._measures[packed.form] = self._begin(packed, run)
        return self._measures[packed.form]

    def _begin(self, packed: Packed, run: Pass) -> Captured:
        """Capture a pass over batches of a form, on this batch, without a trace."""
        if any(field.name == ONLY for field in packed.form):
            raise EngineFailed("method 'separate' has graphs for batches of one task, and this has several")
        memory = packed.memory.to(self.device, copy=True)
        batch = views(memory, packed.form)
        if "weight" in batch:
            batch["weight"].zero_()
        # the mask of a batch without padding is left out by Hugging Face, except in a graph
        batch[INPUT + "attention_mask"][0, -1] = 0
        found: list[Tensor] = []
        with self._without_trace():
            return Captured(memory, packed.form, self._captured(lambda: run(batch, found)), found, run)

    def _captured(self, function: Callable[[], None]) -> Callable[[], None]:
        try:
            return self._capture(function)
        except RuntimeError as why:  # the driver's, the compiler's; a mistake in the step itself is none
            raise EngineFailed(f"{type(why).__name__}: {str(why).strip().splitlines()[0]}") from why

    @contextmanager
    def _without_trace(self) -> Iterator[None]:
        """Inside, every owner is absent; the host's random numbers are put back."""
        state = torch.get_rng_state()
        self._masked.absent.fill_(1.0)
        try:
            yield
        finally:
            torch.set_rng_state(state)

    @contextmanager
    def trial(self, number: int) -> Iterator[None]:
        """Inside, passes weigh their examples as a step's do, but move nobody and leave no trace.

        Args:
            number: of the step.
        """
        before = [(x, x.clone()) for x in (self._masked.numbers, self._tally, self._odd)]
        gradients = [parameter.grad for parameter in self._trained]
        with self._without_trace():
            self._number.fill_(number)
            self._limit.fill_(math.inf)  # clipped gradients would hide that they are too long
            self._factors.fill_(1.0)
            try:
                yield
            finally:
                for place, value in before:
                    place.copy_(value)
                for parameter, gradient in zip(self._trained, gradients, strict=True):
                    parameter.grad = gradient
                for owner in self.optimizers.optimizers:
                    self.optimizers.follow(owner)
                if not self._whole:
                    self.optimizers.zero_grad()

    def _forward(self, batch: dict[str, Tensor], training: bool) -> tuple[Output, dict[str, Tensor]]:
        inputs = {k.removeprefix(INPUT): x for k, x in batch.items() if k.startswith(INPUT)}
        labels = {k.removeprefix(LABEL): x for k, x in batch.items() if k.startswith(LABEL)}
        self.model.train(training)
        with precision(self.training, self.device), self._one_task(batch):
            given = self.gradients.parts.given(inputs)
            output = self.model.run(**given, examples=batch["examples"].size(0))
        return output, labels

    @contextmanager
    def _one_task(self, batch: dict[str, Tensor]) -> Iterator[None]:
        """Inside, rows run through the encoder of the task that the batch's form names, if it does."""
        body: Any = self.model.body
        for name in batch:
            if name.startswith(ONLY):
                body.only = int(name.removeprefix(ONLY))
        try:
            yield
        finally:
            if self.model.method.separate:
                body.only = None

    def _pass(self, batch: dict[str, Tensor]) -> Tensor:
        """The gradients of a part, added to what there is, and what it has lost: each example, [E]."""
        if self._whole:
            # not zeros to add to: the gradients of a step are where its backward puts them
            for parameter in self._trained:
                parameter.grad = None
        output, labels = self._forward(batch, True)
        tasks, weight = batch["tasks"], batch["weight"]
        found = self.model.example_losses(output, labels)[: len(weight)]
        (found * (weight * self._factors[tasks])).sum().backward()
        with torch.no_grad():
            counted = weight != 0
            odd = (counted & ~found.isfinite()).any()
            self._odd.copy_(torch.minimum(self._odd, torch.where(odd, self._number, math.inf)))
            # not what follows from it: the task that is told is the one that it began with
            lost = torch.where(counted & (self._odd >= self._number), found, 0.0).double()
            self._tally.index_add_(1, tasks, torch.stack([lost, counted.double(), lost * weight]))
        return found.detach()

    def _updated(self) -> None:
        """Every owner that is not absent moves; gradients that are added up are zero then."""
        if self.penalty is not None:
            self.penalty().backward()
        if self.training.clip is not None:
            self.optimizers.clip(self._limit, clip_by(self.training))
        for parameter in self._trained:
            if parameter.grad is None:  # nothing reads it: its moments fade all the same
                parameter.grad = torch.zeros_like(parameter)
        self._masked.step()
        if not self._whole:
            self.optimizers.zero_grad()
