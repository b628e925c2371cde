"""The engine `eager`: the host launches each kernel as Python reaches it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
import torch._dynamo.exc

from weft.acceleration.patch import PatchStack
from weft.training.engines.engine import Engine, EngineFailed, Measures, Move
from weft.training.engines.verifier import Verifier
from weft.training.optim.clip import clip_by
from weft.training.step.gradients import Penalty, StepGradients
from weft.training.step.microbatches import PreparedStep
from weft.training.step.task_losses import Floats, TaskLosses

if TYPE_CHECKING:
    from weft.sampling.plan.plan import Candidates
    from weft.training.optim.owners import OwnerOptimizers


class EagerEngine(Engine):
    """Runs steps eagerly and reads their losses at once. Its arguments are those of `Engine`."""

    name = "eager"

    def __init__(
        self,
        gradients: StepGradients,
        optimizers: OwnerOptimizers,
        penalty: Penalty | None = None,
        patch_stack: PatchStack | None = None,
        verifier: Verifier | None = None,
    ) -> None:
        super().__init__(gradients, optimizers, penalty, patch_stack, verifier)
        self._losses = TaskLosses.zero(len(gradients.names))

    @classmethod
    def priority(cls, device: torch.device) -> int | None:
        """See `Engine`: on a CPU compiling costs most runs more time than it saves."""
        return 0

    def step(self, prepared: PreparedStep, move: Move) -> None:
        """See `Engine`."""
        training = self.gradients.training
        with _compiler_errors():
            if self.probe is not None:
                for count, microbatch in enumerate(prepared.microbatches):
                    self.probe.check_microbatch(prepared.step.number, count, microbatch)
            self.optimizers.zero_grad()
            self._losses.add(self.gradients.of(prepared, move.factors, self.penalty))
        if training.clip is not None:
            self.optimizers.clip(training.clip, clip_by(training))
        self.optimizers.set_factor(move.factor, move.peak)
        self.optimizers.step(move.present, move.drifting)

    def losses(self) -> TaskLosses:
        """See `Engine`."""
        losses, self._losses = self._losses, TaskLosses.zero(len(self.gradients.names))
        return losses

    def measured(self, candidates: Candidates, measures: Measures, dropout: bool) -> Floats:
        """See `Engine`."""
        verified = None if self.probe is None else self.probe.verified_measure
        with _compiler_errors():
            if self.probe is not None:
                self.probe.check_candidates(candidates)
            return self.gradients.measured(candidates, measures, dropout, verified)


@contextmanager
def _compiler_errors() -> Iterator[None]:
    """Inside, an error of the compiler is raised as `EngineFailed`."""
    try:
        yield
    except torch._dynamo.exc.TorchDynamoException as why:
        raise EngineFailed(f"the compiler failed: {str(why).strip().splitlines()[0]}") from why
