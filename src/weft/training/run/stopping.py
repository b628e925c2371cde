"""Early stopping: a task whose score has not improved is no longer sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.training.run.component import Component
from weft.training.run.state import TaskProgress
from weft.training.settings import Stop


def note_scores(
    tasks: Sequence[TaskProgress],
    scores: Sequence[float],
    trained: Sequence[bool],
    step: int,
    min_delta: float,
) -> list[bool]:
    """Record an evaluation in every task's progress.

    A score is the best so far if it is the largest. It resets the patience if it exceeds the last score that
    did so by more than `min_delta`. An evaluation does not count against a task that had no example since the
    one before. A score that is not finite is worse than any other.

    Args:
        tasks: the progress of each task, [T]; changed in place.
        scores: the score of each task, larger is better, [T].
        trained: whether each task had examples since the last evaluation, [T].
        step: the number of steps done.
        min_delta: the smallest improvement that resets the patience.

    Returns:
        Which tasks have their best score so far, [T].
    """
    improved = []
    for task, score, had in zip(tasks, scores, trained, strict=True):
        score = score if math.isfinite(score) else -math.inf
        better = task.best is None or score > task.best
        if better:
            task.best, task.best_step = score, step
        if task.mark is None or score > task.mark + min_delta:
            task.mark, task.waited = score, 0
        elif had:
            task.waited += 1
        improved.append(better)
    return improved


def out_of_patience(
    tasks: Sequence[TaskProgress], stop: Stop | None, steps: int, stopped: Sequence[int]
) -> list[int]:
    """The tasks that must stop now.

    Args:
        tasks: the progress of each task, [T].
        stop: the settings of early stopping; None: no task stops.
        steps: the number of steps done, without those of the gate phase.
        stopped: the tasks that have stopped before.
    """
    if stop is None or steps < stop.after:
        return []
    return [t for t, task in enumerate(tasks) if task.waited >= stop.patience and t not in stopped]


def stop_message(name: str, best_step: int | None, step: int, at: int) -> str:
    """The line for the user when a task stops.

    Args:
        name: the task.
        best_step: the number of steps done at its best score.
        step: the number of steps done.
        at: the step from which on it is not sampled: examples are sorted by length in windows, and the
            present window is completed first.
    """
    when = "" if at == step else f" from step {at} on"
    return f"early stopping: {name} has not improved since step {best_step} and is no longer sampled{when}"


class Stopping(Component):
    """Stops every task whose patience has run out.

    The scores and the stops are in the loop's state, because the best weights and the plan depend on them.

    Args:
        stop: the settings of early stopping; None: no task stops.
    """

    name = "stopping"

    def __init__(self, stop: Stop | None) -> None:
        self.stop = stop

    def after_evaluation(self) -> None:
        """See `Component`."""
        state = self.run.state
        for task in out_of_patience(state.tasks, self.stop, state.step - self.run.before, state.stopped):
            self.run.stop_task(task)
