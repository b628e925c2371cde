"""Evaluations during training: the scores, and the best weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from weft.evaluation.evaluate import evaluate, fixed_examples
from weft.evaluation.scores import Scores, main_score
from weft.training.optim.precision import precision
from weft.training.run.best import PER_TASK, Best
from weft.training.run.state import State
from weft.training.run.stopping import note_scores
from weft.training.settings import Training
from weft.utils.processes import Processes

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model


class Validation:
    """Evaluates a model in training.

    Args:
        model: the model.
        training: how it is trained.
        validation: the tokenized validation rows by name; those of a further set as `TASK:SET`.
        names: the tasks that train, [T].
        folder: where the best weights are kept.
        processes: those that train together.
    """

    def __init__(
        self,
        model: Model,
        training: Training,
        validation: Mapping[str, Tokens],
        names: Sequence[str],
        folder: Path,
        processes: Processes,
    ) -> None:
        self.model, self.training, self.names, self.processes = model, training, names, processes
        self.validation = dict(validation)
        self.best = Best(model, folder, names, training.best == PER_TASK, processes)
        rows, seed = training.evaluate_rows, training.seed
        self.rows = {name: fixed_examples(own, rows, seed, name) for name, own in validation.items()}

    def scores(self, whole: bool | None = None) -> Scores:
        """The scores of the model as it is.

        Args:
            whole: whether on all rows or on those that are watched, in float32 on any device: the loaded
                bundle must find the same numbers. None, in training: on those that are watched, on a GPU in
                the precision of training.
        """
        rows = None if whole else self.rows
        device = next(self.model.parameters()).device
        inside = (
            partial(precision, self.training, device) if whole is None and device.type == "cuda" else None
        )
        # users repeat the last evaluation: its numbers must not depend on what ran before
        capture: Literal["auto", "always"] = "auto" if whole is None else "always"
        return evaluate(self.model, self.validation, rows, self.processes, precision=inside, capture=capture)

    def note(self, state: State, scores: Scores) -> None:
        """Note an evaluation: weights that are the best so far are kept.

        Args:
            state: of the run; its window is that of the steps since the last evaluation.
            scores: what was found.
        """
        own = [main_score(scores["tasks"][name]) for name in self.names]
        delta = 0.0 if self.training.stop is None else self.training.stop.min_delta
        trained = [draws > 0 for draws in state.window.draws]
        better = note_scores(state.tasks, own, trained, state.step, delta)
        for task in np.flatnonzero(better).tolist() if self.best.per_task else ():
            self.best.keep_task(task, state)
        wanted = self.training.best
        score = own[self.names.index(wanted)] if wanted in self.names else scores["average"]
        # a score that is no number is worse than any
        score = score if math.isfinite(score) else -math.inf
        if state.best is None or score > state.best:
            state.best, state.best_step = score, state.step
            if not self.best.per_task:
                self.best.keep_all(state)

    def outcome(self, state: State) -> dict[str, Any]:
        """How the run ended: the step that the model is of, each task's where they differ, and the stops."""
        told: dict[str, Any] = {"best_step": state.best_step or state.step}
        if self.best.per_task:
            steps = [task.best_step or state.step for task in state.tasks]
            told["best_step"] = dict(zip(self.names, steps, strict=True))
        if state.stops:
            told["stops"] = {self.names[task]: min(at, state.step) for at, task in state.stops}
        return told
