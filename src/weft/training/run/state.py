"""What a loop carries from step to step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class TaskProgress:
    """How a task does at its evaluations.

    Attributes:
        best: its best score.
        best_step: the step after which it was found.
        mark: the score that the next must pass to count as better, less `stop.min_delta`.
        waited: the evaluations since then.
    """

    best: float | None = None
    best_step: int | None = None
    mark: float | None = None
    waited: int = 0


@dataclass
class Window:
    """The steps since the last evaluation.

    Attributes:
        steps: how many they are.
        examples: how many examples of each task they trained on, [T].
        draws: how often each task was drawn: a batch, or an example of a mixed one, [T].
        share: the sum over them of each task's expected share of the draws, [T].
    """

    steps: int = 0
    examples: list[int] = field(default_factory=list)
    share: list[float] = field(default_factory=list)
    draws: list[int] = field(default_factory=list)


@dataclass
class State:
    """What the loop carries from step to step besides weights and optimisers: all of it is in a checkpoint.

    Attributes:
        step: how many steps are done.
        best: the best score so far.
        best_step: the step after which it was found; its weights are in best-STEP.safetensors.
        losses: the sum of each task's example losses since the log's last line, [T].
        examples: how many examples these are, [T].
        seconds: the time taken, over all parts of an interrupted run.
        stops: (step, task): from that step on the task is drawn no more, in order; the plan follows from it.
        tasks: how each task does, [T].
        window: the steps since the last evaluation.
        parts: what the other parts of the loop remember, by their names.
    """

    step: int = 0
    best: float | None = None
    best_step: int | None = None
    losses: list[float] = field(default_factory=list)
    examples: list[float] = field(default_factory=list)
    seconds: float = 0.0
    stops: list[tuple[int, int]] = field(default_factory=list)
    tasks: list[TaskProgress] = field(default_factory=list)
    window: Window = field(default_factory=Window)
    parts: dict[str, Any] = field(default_factory=dict)

    @property
    def stopped(self) -> list[int]:
        """The tasks that have stopped, in the order in which they did."""
        return [task for _, task in self.stops]

    @classmethod
    def fresh(cls, tasks: int) -> State:
        """Of a run that begins, with so many tasks."""
        zeros = [0.0] * tasks
        return cls(
            losses=list(zeros),
            examples=list(zeros),
            tasks=[TaskProgress() for _ in range(tasks)],
            window=fresh_window(tasks),
        )

    @classmethod
    def read(cls, said: dict[str, Any], tasks: int) -> State:
        """From a checkpoint's JSON; a checkpoint made before a field was there has its start value."""
        given = dict(said)
        given["stops"] = [(int(step), int(task)) for step, task in given.get("stops", [])]
        given["tasks"] = [TaskProgress(**one) for one in given.get("tasks", [])]
        given["tasks"] = given["tasks"] or [TaskProgress() for _ in range(tasks)]
        window = given.pop("window", None)
        return cls(**given, window=Window(**window) if window else fresh_window(tasks))


def fresh_window(tasks: int) -> Window:
    """A window without a step."""
    return Window(0, [0] * tasks, [0.0] * tasks, [0] * tasks)
