"""Evaluations during training: scores, and the best weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from weft.errors import Diverged
from weft.evaluation.evaluate import evaluate, fixed_examples
from weft.evaluation.scores import Scores, main_score
from weft.evaluation.selection import AVERAGE, PER_TASK, selecting_score
from weft.inference.finite import NotFinite
from weft.training.optim.precision import precision
from weft.training.run.best import Best
from weft.training.run.divergence import check_weights
from weft.training.run.records import Records
from weft.training.run.state import State
from weft.training.run.stopping import note_scores
from weft.training.settings import Training
from weft.training.step.gradients import after_divergence
from weft.utils.processes import Processes

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model


class Validation:
    """Evaluates a model in training.

    Args:
        model: the model.
        training: the settings of `train`.
        validation: the tokenized validation rows by name; those of a further set as `TASK:SET`.
        names: the names of the tasks that train, [T].
        folder: the folder of the best weights.
        processes: the processes that train together.
        records: knows the tasks of the last step.
    """

    def __init__(
        self,
        model: Model,
        training: Training,
        validation: Mapping[str, Tokens],
        names: Sequence[str],
        folder: Path,
        processes: Processes,
        records: Records,
    ) -> None:
        self.records = records
        self.model, self.training, self.names, self.processes = model, training, names, processes
        self.validation = dict(validation)
        self.best = Best(model, folder, names, training.best == PER_TASK, processes)
        rows, seed = training.evaluate_rows, training.seed
        self.rows = {name: fixed_examples(tokens, rows, seed, name) for name, tokens in validation.items()}

    def check_weights(self, steps: int) -> None:
        """Raise `Diverged` if the weights are not finite.

        The losses of all steps must have been read before: they name the task and the step more exactly.

        Args:
            steps: the number of steps done.
        """
        check_weights(self.model, steps, self.records.last_tasks, self.training, self.processes)

    def scores(self, steps: int, whole: bool | None = None) -> Scores:
        """The scores of the model as it is.

        Args:
            steps: the number of steps done.
            whole: whether to evaluate all rows or `evaluate_rows`, in float32 on any device, because the
                loaded bundle must reproduce the numbers. None, in training: `evaluate_rows`, on a GPU in the
                precision of training.

        Raises:
            Diverged: the weights, or outputs of the model, are not finite.
        """
        self.check_weights(steps)
        rows = None if whole else self.rows
        device = next(self.model.parameters()).device
        inside = (
            partial(precision, self.training, device) if whole is None and device.type == "cuda" else None
        )
        # users repeat the last evaluation: its numbers must not depend on the passes before
        capture: Literal["auto", "always"] = "auto" if whole is None else "always"
        try:
            return evaluate(
                self.model, self.validation, rows, self.processes, precision=inside, capture=capture
            )
        except NotFinite as wrong:
            raise Diverged(
                f"evaluation after {steps} steps: {wrong.what}; the run diverged.\n"
                f"  {after_divergence(self.training)}",
                everywhere=True,
            ) from None

    def note(self, state: State, scores: Scores) -> None:
        """Record an evaluation, and save the weights if they are the best so far.

        Args:
            state: the state of the run; its window covers the steps since the last evaluation.
            scores: the scores of the evaluation.
        """
        task_scores = [main_score(scores["tasks"][name]) for name in self.names]
        delta = 0.0 if self.training.stop is None else self.training.stop.min_delta
        trained = [draws > 0 for draws in state.window.draws]
        better = note_scores(state.tasks, task_scores, trained, state.step, delta)
        for task in np.flatnonzero(better).tolist() if self.best.per_task else ():
            self.best.keep_task(task, state)
        score = selecting_score(self.training.best, scores)
        # a score that is not finite is worse than any other
        score = score if math.isfinite(score) else -math.inf
        if state.best is None or score > state.best:
            state.best, state.best_step = score, state.step
            if not self.best.per_task:
                self.best.keep_all(state)

    def outcome(self, state: State) -> dict[str, Any]:
        """The result for the log: the step of the best weights, by task if they differ, and the stops.

        If neither the average nor each task selects, also the score that does, at that step.
        """
        fields: dict[str, Any] = {"best_step": state.step if state.best_step is None else state.best_step}
        if self.best.per_task:
            steps = [state.step if task.best_step is None else task.best_step for task in state.tasks]
            fields["best_step"] = dict(zip(self.names, steps, strict=True))
        if self.training.best not in (AVERAGE, PER_TASK) and state.best is not None:
            fields["selected"] = {"by": self.training.best, "score": state.best}
        if state.stops:
            fields["stops"] = {self.names[task]: min(at, state.step) for at, task in state.stops}
        return fields
