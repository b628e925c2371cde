"""What is remembered of the steps for the log: losses, and what a window of steps trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.sampling.plan.plan import Step
from weft.training.run.state import State, fresh_window
from weft.training.step.task_losses import TaskLosses
from weft.utils.processes import Processes


class Records:
    """Keeps the counts of a run in its state.

    Args:
        names: the tasks, [T].
        processes: those that train together; each knows the losses of its own examples until they are summed.
    """

    def __init__(self, names: Sequence[str], processes: Processes) -> None:
        self.names, self.processes = names, processes
        self._own = TaskLosses.zero(len(names))  # since they were last summed

    def add(
        self,
        state: State,
        step: Step,
        share: NDArray[np.float64] | None,
        mixed: bool,
    ) -> None:
        """A step is done.

        Args:
            state: of the run.
            step: its examples, of all processes.
            share: each task's expected share of the draws, [T]; None where it is not known beforehand.
            mixed: whether each example is a draw; else the step is one.
        """
        task = step.task[: step.real]
        window = state.window
        window.steps += 1
        counts = np.bincount(task, minlength=len(self.names))
        window.examples = [int(n) for n in counts + window.examples]
        window.draws = [int(n) for n in (counts if mixed else np.minimum(counts, 1)) + window.draws]
        if share is None:
            window.share = []
        elif window.share:
            window.share = [float(s) for s in share + window.share]

    def lost(self, losses: TaskLosses) -> None:
        """What this process's examples of some steps have lost."""
        self._own.add(losses)

    def sum_losses(self, state: State) -> None:
        """Bring the losses of all processes into the state: before it is written, or told."""
        both = self.processes.sum_array(np.stack([self._own.loss, self._own.examples]))
        state.losses = [float(x) for x in both[0] + state.losses]
        state.examples = [float(x) for x in both[1] + state.examples]
        self._own = TaskLosses.zero(len(self.names))

    def mean_losses(self, state: State) -> dict[str, float]:
        """The mean loss of each task that had examples since this was last asked."""
        self.sum_losses(state)
        told = zip(self.names, state.losses, state.examples, strict=True)
        losses = {name: total / count for name, total, count in told if count}
        state.losses = [0.0] * len(self.names)
        state.examples = [0.0] * len(self.names)
        return losses

    def window(self, state: State) -> dict[str, Any]:
        """What the steps since the last evaluation trained on; a new window begins."""
        window = state.window
        told: dict[str, Any] = {
            "steps": window.steps,
            "examples": dict(zip(self.names, window.examples, strict=True)),
            "draws": dict(zip(self.names, window.draws, strict=True)),
        }
        if window.share and window.steps:
            means = (s / window.steps for s in window.share)
            told["share"] = dict(zip(self.names, means, strict=True))
        state.window = fresh_window(len(self.names))
        return told
