"""What runs a step: forward, loss, backward, clip, optimisers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from weft.training.step.gradients import Measures, Penalty
from weft.training.step.microbatches import PreparedStep
from weft.training.step.task_losses import Floats, TaskLosses

if TYPE_CHECKING:
    from weft.sampling.plan.plan import Candidates
    from weft.training.engines.probe import Probe


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


class Engine(Protocol):
    """Runs the steps of a run.

    Attributes:
        name: `eager`, `compiled` or `graph`.
        probe: what verifies its shapes; None: nothing does.
    """

    name: str
    probe: Probe | None

    def prepare(self, prepared: PreparedStep) -> PreparedStep:
        """The same step, further prepared: this runs ahead of the step, in another thread."""
        ...

    def step(self, prepared: PreparedStep, move: Move) -> None:
        """One step: the gradients of all its parts, then every present owner moves."""
        ...

    def losses(self) -> TaskLosses:
        """What the steps since this was last asked have lost; a loss that is no number ends the run."""
        ...

    def measured(self, candidates: Candidates, measures: Measures, dropout: bool) -> Floats:
        """What the model thinks of candidates, [C]."""
        ...

    def at_rest(self) -> AbstractContextManager[object]:
        """Inside, the model is as it is outside training: to be evaluated, saved, handed on."""
        ...

    def close(self) -> None:
        """Leave the model as it was found, but for its weights."""
        ...


class EngineFailed(Exception):
    """An engine cannot run this model; what it had begun is undone, and another can take its place."""


__all__ = ["Engine", "EngineFailed", "Floats", "Measures", "Move", "Penalty", "TaskLosses"]
