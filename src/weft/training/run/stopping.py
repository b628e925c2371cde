"""Early stopping: a task that gets no better is sampled no more."""

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
    """Note an evaluation in every task's progress.

    A score is better than all before if it is larger; it ends the waiting if it is larger than the last that
    did by more than `min_delta`. A task that had no example since the last evaluation could not get better,
    and waits no longer for it. A score that is no number is worse than any.

    Args:
        tasks: of each task, [T]; changed in place.
        scores: of each task, the larger the better, [T].
        trained: whether each task had examples since the last evaluation, [T].
        step: the steps done.
        min_delta: how much better counts.

    Returns:
        Which tasks have their best score so far, [T].
    """
    found = []
    for task, score, had in zip(tasks, scores, trained, strict=True):
        score = score if math.isfinite(score) else -math.inf
        better = task.best is None or score > task.best
        if better:
            task.best, task.best_step = score, step
        if task.mark is None or score > task.mark + min_delta:
            task.mark, task.waited = score, 0
        elif had:
            task.waited += 1
        found.append(better)
    return found


def out_of_patience(
    tasks: Sequence[TaskProgress], stop: Stop | None, steps: int, stopped: Sequence[int]
) -> list[int]:
    """The tasks that are to stop now.

    Args:
        tasks: of each task, [T].
        stop: when a task stops; None: never.
        steps: the steps done, those of a phase that finds gates left out.
        stopped: the tasks that have stopped before.
    """
    if stop is None or steps < stop.after:
        return []
    return [t for t, task in enumerate(tasks) if task.waited >= stop.patience and t not in stopped]


class Stopping(Component):
    """Stops every task whose patience has run out.

    The scores and the stops are the loop's own state: the best weights follow from the first, and the plan
    from the second.

    Args:
        stop: when a task stops; None: never.
    """

    name = "stopping"

    def __init__(self, stop: Stop | None) -> None:
        self.stop = stop

    def after_evaluation(self) -> None:
        """See `Component`."""
        state = self.run.state
        for task in out_of_patience(state.tasks, self.stop, state.step - self.run.before, state.stopped):
            self.run.stop_task(task)
