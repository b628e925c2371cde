"""`train.measure_uncertainty`: log the predictive entropy of each task, whatever the sampler is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import WeftError, train_key
from weft.sampling.plan.plan import Plan
from weft.tasks.kinds import KINDS
from weft.training.run.component import Component, RunContext, StepDone
from weft.training.uncertainty.measures import measures

if TYPE_CHECKING:
    from weft.training.step.gradients import StepGradients

MEASURE = "entropy"


class EntropyLog(Component):
    """Writes a line `uncertainty` every N steps: the mean entropy of each task's answers, from 0 to 1.

    It is measured without dropout on B training examples of each task that has a measure. They follow from
    the seed and the step alone, so that runs with different samplers measure the same examples: without
    length buckets they are the candidates that `mt_uncertainty` would have. Training is not affected.

    Args:
        every: the number of steps between two lines, N; the first is written before the first step.
        sizes: the number of training examples of each task, [T].
        gradients: runs the model.
    """

    name = "entropy_log"

    def __init__(self, every: int, sizes: Sequence[int], gradients: StepGradients) -> None:
        self.every, self.sizes, self.gradients = every, list(sizes), gradients

    def begin(self, run: RunContext) -> None:
        """See `Component`."""
        super().begin(run)
        kinds = [run.model.tasks[run.model.task_id(name)].kind for name in run.names]
        self._measured = np.array([KINDS[kind].has_uncertainty for kind in kinds])
        if not self._measured.any():
            tasks = ", ".join(f"{name} ({kind})" for name, kind in zip(run.names, kinds, strict=True))
            raise WeftError(
                f"{train_key('measure_uncertainty')}: no task of this run has an uncertainty measure; found "
                f"{tasks}; expected 0"
            )
        training = run.training
        # one more step: the last line is written after the last step
        self._plan = Plan(
            self.sizes, "mt_uncertainty", training.seed, run.total + 1, training.batch_size, names=run.names
        )

    def before_step(self, number: int) -> None:
        """See `Component`."""
        if number == 0:
            self._write(0)

    def after_step(self, done: StepDone) -> None:
        """See `Component`."""
        steps = done.step.number + 1
        if steps % self.every == 0:
            self._write(steps)

    def _write(self, steps: int) -> None:
        """Measure the model after this number of steps."""
        candidates = self._plan.candidates(steps)
        rows = self._measured[candidates.task]
        candidates = type(candidates)(steps, candidates.task[rows], candidates.index[rows])
        model = self.run.model
        with self.run.at_rest():
            values = self.gradients.measured(
                candidates, lambda output, labels: measures(model, output, MEASURE, labels), dropout=False
            )
        entropy = {
            name: round(float(values[candidates.task == task].mean()), 6)
            for task, name in enumerate(self.run.names)
            if self._measured[task]
        }
        self.run.write_log("uncertainty", step=steps, entropy=entropy)
