"""The base class of engines, which run a step: forward, loss, backward, clipping, optimizers."""

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
    """How a step updates the weights, apart from its examples.

    Attributes:
        factor: the factor on the peak learning rates.
        peak: the peak learning rate of the phase; None: the configured one.
        present: the model's ids of the tasks with an example in the step.
        drifting: the ids of the tasks that are updated without one, by momentum and decay.
        factors: the factor on each task's loss, [T]; None: 1.
    """

    factor: float
    peak: float | None
    present: list[int]
    drifting: list[int]
    factors: NDArray[np.float32] | None


class Engine(ABC):
    """Runs the steps of a run; a subclass is registered in `ENGINES`.

    Args:
        gradients: computes the gradients of a step.
        optimizers: the optimizer of each owner.
        penalty: added to the loss of every step; None: nothing.
        patch_stack: the reversible patches of the model in training.
        verifier: compares compiled shapes with uncompiled ones; None: no verification.

    Attributes:
        name: the name it is registered under.
        compiles: whether it compiles the encoder's blocks. Batches are then padded to a few shapes, and each
            shape is verified (`train.verify_engine`).
        probe: verifies its shapes; None: no verification.
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
        """Why the engine cannot run a model's steps, in a sentence; None: it can.

        Args:
            model: the model, on its device.
            training: the settings of `train`.
            processes: the processes that train together.
        """
        return None

    @classmethod
    def priority(cls, device: torch.device) -> int | None:
        """The priority for `train.engine: auto`; None: the engine runs only if requested by name.

        The engine with the highest priority that can run is chosen: `eager` has 0 on every device, `graph` 10
        on a GPU.

        Args:
            device: the device of the model.
        """
        return None

    @classmethod
    def variant(cls, training: Training) -> type[Engine]:
        """The class that runs steps with these settings: this one, or a subclass of it."""
        return cls

    def prepare(self, prepared: PreparedStep) -> PreparedStep:
        """Prepare a step further; this runs ahead of the step, in a background thread."""
        return prepared

    @abstractmethod
    def step(self, prepared: PreparedStep, move: Move) -> None:
        """Run one step: compute the gradients of all micro-batches, then update every present owner."""

    @abstractmethod
    def losses(self) -> TaskLosses:
        """The losses of the steps since the last call; a loss that is not finite ends the run."""

    @abstractmethod
    def measured(self, candidates: Candidates, measures: Measures, dropout: bool) -> Floats:
        """Measure the model's uncertainty of candidates, [C]."""

    def at_rest(self) -> AbstractContextManager[object]:
        """Inside, the model's patches are undone, so that it can be evaluated or saved."""
        return self.patch_stack.suspended()

    def close(self) -> None:
        """Undo everything that the engine changed in the model except its weights."""
        self.patch_stack.undo()


class EngineFailed(Exception):
    """An engine cannot run this model. The failed step has changed nothing, so another engine can run it."""


__all__ = ["Engine", "EngineFailed", "Floats", "Measures", "Move", "Penalty", "TaskLosses"]
