"""The state of the training loop, which checkpoints save."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class TaskProgress:
    """The scores of a task's evaluations.

    Attributes:
        best: the task's best score.
        best_step: the number of steps done at the best score.
        mark: the score that a later one must exceed by `stop.min_delta` to be an improvement.
        waited: the number of evaluations without improvement since `mark`.
    """

    best: float | None = None
    best_step: int | None = None
    mark: float | None = None
    waited: int = 0


@dataclass
class Window:
    """Counts of the steps since the last evaluation.

    Attributes:
        steps: the number of steps.
        examples: the number of examples of each task that they trained on, [T].
        draws: how often each task was sampled: per batch, or per example of a mixed batch, [T].
        share: the sum over the steps of the probability of sampling each task, [T].
    """

    steps: int = 0
    examples: list[int] = field(default_factory=list)
    share: list[float] = field(default_factory=list)
    draws: list[int] = field(default_factory=list)


@dataclass
class State:
    """The state of the loop besides weights and optimizers; a checkpoint saves all of it.

    Attributes:
        step: the number of steps done.
        best: the best score so far.
        best_step: the number of steps done at the best score; its weights are in best-STEP.safetensors.
        losses: the sum of each task's example losses since the log's last line, [T].
        examples: the number of these examples, [T].
        seconds: the training time, over all sessions of an interrupted run, with evaluations in between.
        step_seconds: the time of the steps alone.
        step_examples: the number of examples that these steps trained on.
        stops: (step, task), in order: from that step on the task is no longer sampled.
        tasks: the scores of each task, [T].
        window: counts of the steps since the last evaluation.
        parts: the states of the components, by name.
    """

    step: int = 0
    best: float | None = None
    best_step: int | None = None
    losses: list[float] = field(default_factory=list)
    examples: list[float] = field(default_factory=list)
    seconds: float = 0.0
    step_seconds: float = 0.0
    step_examples: int = 0
    stops: list[tuple[int, int]] = field(default_factory=list)
    tasks: list[TaskProgress] = field(default_factory=list)
    window: Window = field(default_factory=Window)
    parts: dict[str, Any] = field(default_factory=dict)

    @property
    def stopped(self) -> list[int]:
        """The tasks that have stopped, in the order in which they did."""
        return [task for _, task in self.stops]

    def note_time(self, began: float, step_began: float, examples: int) -> None:
        """Count the time of a step that ends now, or of waiting for steps that were started before.

        Args:
            began: when the run began, as `time.monotonic` counts; earlier for a resumed run.
            step_began: when the step, or the wait, began.
            examples: the number of examples of the step; 0 for a wait.
        """
        now = time.monotonic()
        self.seconds = now - began
        self.step_seconds += now - step_began
        self.step_examples += examples

    def seconds_so_far(self) -> dict[str, float]:
        """The seconds of the run, and those of its steps alone, for a line of the log."""
        return {"seconds": round(self.seconds, 2), "step_seconds": round(self.step_seconds, 3)}

    def speed(self) -> dict[str, float]:
        """The seconds of the run and the examples per second of its steps, for the log and metrics.json."""
        speed = {"seconds": round(self.seconds, 2)}
        if self.step_seconds:
            speed["examples_per_second"] = round(self.step_examples / self.step_seconds, 1)
        return speed

    @classmethod
    def fresh(cls, tasks: int) -> State:
        """The state of a new run with this number of tasks."""
        zeros = [0.0] * tasks
        return cls(
            losses=list(zeros),
            examples=list(zeros),
            tasks=[TaskProgress() for _ in range(tasks)],
            window=fresh_window(tasks),
        )

    @classmethod
    def read(cls, saved: dict[str, Any], tasks: int) -> State:
        """Read the state from a checkpoint's JSON; fields that an old checkpoint lacks get their defaults."""
        fields = dict(saved)
        fields["stops"] = [(int(step), int(task)) for step, task in fields.get("stops", [])]
        fields["tasks"] = [TaskProgress(**task) for task in fields.get("tasks", [])]
        fields["tasks"] = fields["tasks"] or [TaskProgress() for _ in range(tasks)]
        window = fields.pop("window", None)
        return cls(**fields, window=Window(**window) if window else fresh_window(tasks))


def fresh_window(tasks: int) -> Window:
    """A window without a step."""
    return Window(0, [0] * tasks, [0.0] * tasks, [0] * tasks)
