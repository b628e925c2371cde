"""Records for the log: losses, and the examples that a window of steps trained on."""

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
    """Updates the counts in a run's state.

    Args:
        names: the names of the tasks, [T].
        processes: the processes that train together; each has the losses of its examples until they are
            summed.
    """

    def __init__(self, names: Sequence[str], processes: Processes) -> None:
        self.names, self.processes = names, processes
        self._last = np.zeros(len(names), np.int64)  # the number of examples of the last step, by task
        self._local = TaskLosses.zero(len(names))  # of this process, since they were last summed

    def add(
        self,
        state: State,
        step: Step,
        share: NDArray[np.float64] | None,
        mixed: bool,
    ) -> None:
        """Count a step.

        Args:
            state: the state of the run.
            step: the step, with the examples of all processes.
            share: the probability of sampling each task, [T]; None if it is not known beforehand.
            mixed: whether tasks are sampled per example; else per step.
        """
        task = step.task[: step.real]
        window = state.window
        window.steps += 1
        self._last = counts = np.bincount(task, minlength=len(self.names))
        window.examples = [int(n) for n in counts + window.examples]
        window.draws = [int(n) for n in (counts if mixed else np.minimum(counts, 1)) + window.draws]
        if share is None:
            window.share = []
        elif window.share:
            window.share = [float(s) for s in share + window.share]

    @property
    def last_tasks(self) -> list[str]:
        """The names of the tasks that the last step had examples of."""
        return [self.names[task] for task in np.flatnonzero(self._last).tolist()]

    def lost(self, losses: TaskLosses) -> None:
        """Add the losses of this process's examples of some steps."""
        self._local.add(losses)

    def sum_losses(self, state: State) -> None:
        """Add the losses of all processes to the state, before it is saved or logged."""
        both = self.processes.sum_array(np.stack([self._local.loss, self._local.examples]))
        state.losses = [float(x) for x in both[0] + state.losses]
        state.examples = [float(x) for x in both[1] + state.examples]
        self._local = TaskLosses.zero(len(self.names))

    def mean_losses(self, state: State) -> dict[str, float]:
        """The mean loss of each task that had examples since the last call."""
        losses = self.losses_so_far(state)
        state.losses = [0.0] * len(self.names)
        state.examples = [0.0] * len(self.names)
        return losses

    def losses_so_far(self, state: State) -> dict[str, float]:
        """The same without a new beginning: the next call of `mean_losses` includes these examples."""
        self.sum_losses(state)
        rows = zip(self.names, state.losses, state.examples, strict=True)
        return {name: total / count for name, total, count in rows if count}

    def window(self, state: State) -> dict[str, Any]:
        """The counts of the steps since the last evaluation, for the log; a new window begins."""
        window = state.window
        fields: dict[str, Any] = {
            "steps": window.steps,
            "examples": dict(zip(self.names, window.examples, strict=True)),
            "draws": dict(zip(self.names, window.draws, strict=True)),
        }
        if window.share and window.steps:
            means = (s / window.steps for s in window.share)
            fields["share"] = dict(zip(self.names, means, strict=True))
        state.window = fresh_window(len(self.names))
        return fields
