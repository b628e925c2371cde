"""What runs a step: forward, loss, backward, clip, optimisers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from weft.acceleration.patch import PatchStack
from weft.training.step.gradients import Measures, Penalty
from weft.training.step.microbatches import PreparedStep
from weft.training.step.task_losses import Floats, TaskLosses

if TYPE_CHECKING:
    import torch

    from weft.model.model import Model
    from weft.sampling.plan.plan import Candidates
    from weft.training.engines.probe import Probe
    from weft.training.engines.verifier import Verifier
    from weft.training.optim.owners import OwnerOptimizers
    from weft.training.settings import Training
    from weft.training.step.gradients import StepGradients
    from weft.utils.processes import Processes


@dataclass(frozen=True)
class Move:
    """How a step moves the weights, beside its examples.

    Attributes:
        factor: the share of the peak learning rates.
        peak: the peak where the phase has its own.
        present: the model's ids of the tasks with an example in the step.
        drifting: those of the tasks that move on without one.
        factors: what each task's loss is multiplied by, [T]; None: 1.
    """

    factor: float
    peak: float | None
    present: list[int]
    drifting: list[int]
    factors: NDArray[np.float32] | None


class Engine(ABC):
    """Runs the steps of a run; a subclass is registered in `ENGINES`.

    Args:
        gradients: what computes the gradients of a step.
        optimizers: each owner's optimiser.
        penalty: what is added to every step's loss; None: nothing.
        patch_stack: the reversible patches of the model in training.
        verifier: what compares compiled shapes with uncompiled ones; None: nothing does.

    Attributes:
        name: the name it is registered under.
        compiles: whether it runs the encoder's blocks compiled. Batches are then padded to a few shapes, and
            each shape is verified (`train.verify_engine`).
        probe: what verifies its shapes; None: nothing does.
    """

    name: ClassVar[str]
    compiles: ClassVar[bool] = False

    def __init__(
        self,
        gradients: StepGradients,
        optimizers: OwnerOptimizers,
        penalty: Penalty | None = None,
        patch_stack: PatchStack | None = None,
        verifier: Verifier | None = None,
    ) -> None:
        from weft.training.engines.probe import Probe

        self.gradients, self.optimizers, self.penalty = gradients, optimizers, penalty
        self.patch_stack = patch_stack or PatchStack()
        self.probe: Probe | None = None if verifier is None else Probe(verifier, gradients, self.patch_stack)

    @classmethod
    def why_not(cls, model: Model, training: Training, processes: Processes) -> str | None:
        """Why it cannot run a model's steps, in a sentence; None: it can.

        Args:
            model: the model, on its device.
            training: how it is to be trained.
            processes: those that train together.
        """
        return None

    @classmethod
    def priority(cls, device: torch.device) -> int | None:
        """Its rank among the engines that `train.engine: auto` chooses from; None: it runs where it is named.

        The highest one that can run is chosen: `eager` has 0 everywhere, `graph` 10 on a GPU.

        Args:
            device: of the model.
        """
        return None

    def prepare(self, prepared: PreparedStep) -> PreparedStep:
        """The same step, further prepared: this runs ahead of the step, in another thread."""
        return prepared

    @abstractmethod
    def step(self, prepared: PreparedStep, move: Move) -> None:
        """One step: the gradients of all its parts, then every present owner moves."""

    @abstractmethod
    def losses(self) -> TaskLosses:
        """What the steps since this was last asked have lost; a loss that is no number ends the run."""

    @abstractmethod
    def measured(self, candidates: Candidates, measures: Measures, dropout: bool) -> Floats:
        """What the model thinks of candidates, [C]."""

    def at_rest(self) -> AbstractContextManager[object]:
        """Inside, the model is as it is outside training: to be evaluated, saved, handed on."""
        return self.patch_stack.suspended()

    def close(self) -> None:
        """Leave the model as it was found, but for its weights."""
        self.patch_stack.undo()


class EngineFailed(Exception):
    """An engine cannot run this model; what it had begun is undone, and another can take its place."""


__all__ = ["Engine", "EngineFailed", "Floats", "Measures", "Move", "Penalty", "TaskLosses"]
