"""The base class of components, which hook into the training loop; by default every hook does nothing.

A component is called at every step and evaluation, may have state that is saved in checkpoints, and may add
fields to the log. weft's components are built like a user's: usage counts, task weights, gates, gradient
conflicts, early stopping and the moving average of the weights (`run/ema.py`).

    class LongestStep(Component):
        \"\"\"Logs the largest number of examples that a step had.\"\"\"

        name = "longest_step"

        def begin(self, run):
            super().begin(run)
            self.most = 0

        def after_step(self, done):
            self.most = max(self.most, done.step.real)

        def log_fields(self, event):
            return {"most_examples": self.most} if event == "step" else {}

        def state(self):
            return {"most": self.most}

        def load_state(self, state):
            self.most = state["most"]

    weft.train(model, training, "runs/x", components=[LongestStep()])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from weft.errors import WeftError, words

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from weft.model.model import Model
    from weft.sampling.plan.plan import Step
    from weft.training.run.state import State
    from weft.training.settings import Training
    from weft.utils.processes import Processes

LogEvent = Literal["step", "evaluation", "end"]
"""The lines of log.jsonl that components can add fields to. Fields of `end` are also in metrics.json."""


@dataclass(frozen=True)
class StepDone:
    """A step that has been taken.

    Attributes:
        step: its number, from 0, and its examples: `task` and `index` of each, [B]; the first `real` count.
        lr_factor: the factor on the peak learning rates.
        losses: Σ weight·loss over each task's examples in all processes, [T]; None unless a component of the
            run has `needs_losses`.
    """

    step: Step
    lr_factor: float
    losses: NDArray[np.float64] | None


class RunContext(Protocol):
    """The interface of the training loop for components.

    Attributes:
        model: the model that trains.
        training: the settings of `train`.
        names: the names of the tasks that train, [T]; examples refer to tasks by number.
        folder: the run's folder.
        settings: the content of run.yaml; set before the first line of the log.
        processes: the processes that train together; each has every component, and all make the same calls.
        state: the loop's state: `step`, the number of steps done; `stops`; `tasks`, with their scores.
        before: the number of steps of the L0 gate phase; 0 without gates.
        total: the number of steps of the run.
    """

    @property
    def model(self) -> Model: ...  # noqa: D102
    @property
    def training(self) -> Training: ...  # noqa: D102
    @property
    def names(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def folder(self) -> Path: ...  # noqa: D102
    @property
    def settings(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def processes(self) -> Processes: ...  # noqa: D102
    @property
    def state(self) -> State: ...  # noqa: D102
    @property
    def before(self) -> int: ...  # noqa: D102
    @property
    def total(self) -> int: ...  # noqa: D102

    def say(self, text: str) -> None:
        """Show a line to the user."""
        ...

    def write_log(self, event: str, **fields: Any) -> None:
        """Write a separate line to log.jsonl."""
        ...

    def at_rest(self) -> AbstractContextManager[object]:
        """Inside, the model runs without the engine's patches, as in evaluations."""
        ...

    def stop_task(self, task: int) -> None:
        """Stop sampling a task, from the next step at which the plan allows it."""
        ...


class Component:
    """Base class of components; the hooks are listed in the order in which a run calls them.

    Attributes:
        name: its name in checkpoints, unique among the components of a run.
        needs_losses: whether `after_step` reads the losses of the step. They are then read after every step,
            which waits for the GPU.
        run: the run, from `begin` on.
    """

    name: str = ""
    needs_losses: bool = False
    run: RunContext

    def begin(self, run: RunContext) -> None:
        """Called before the first step. A resumed run calls this too, and then `load_state`."""
        self.run = run

    def at_phase(self, resumed: bool) -> None:
        """Called when the phase after the L0 gate phase begins: other parameters train from now on.

        Args:
            resumed: whether the run resumes from a checkpoint of this phase; its state is loaded after this.
        """

    def before_step(self, number: int) -> None:
        """Called before each step, and before its examples are chosen if the model chooses them.

        Args:
            number: the number of the step, from 0.
        """

    def task_factors(self) -> NDArray[np.float32] | None:
        """The factor on each task's loss in the next step, [T]; None: 1."""
        return None

    def after_step(self, done: StepDone) -> None:
        """Called after each step: `run.model` has its new weights, and `run.state.step` counts the step."""

    def around_evaluation(self) -> AbstractContextManager[object]:
        """A context in which the model is evaluated, and its weights are saved if they are the best so far.

        At the end of the run, the weights inside this context become the final weights.
        """
        return nullcontext()

    def after_evaluation(self) -> None:
        """Called after an evaluation that counts for the best model, except after the last step."""

    def log_fields(self, event: LogEvent) -> Mapping[str, Any]:
        """Additional JSON-serializable fields of a line of log.jsonl that is about to be written.

        Args:
            event: `step`, every `train.log_every` steps; `evaluation`; or `end`.
        """
        return {}

    def logged(self, line: Mapping[str, Any]) -> None:
        """Called after a line of log.jsonl was written, in the process that writes it.

        Args:
            line: the whole line: `event`, `time` and its other fields.
        """

    def close(self, failed: bool) -> None:
        """Called once when the run ends, also by an error.

        Args:
            failed: whether the run was interrupted, or has failed.
        """

    def state(self) -> dict[str, Any] | None:
        """The state for checkpoints: by key a tensor or a JSON-serializable value.

        None: the component has no state, and may be added or left out when a run is resumed.
        """
        return None

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state`; tensors are whole and on the CPU."""

    def without_state(self, step: int) -> None:
        """Called when a run resumes from a checkpoint without state of this component; by default an error.

        Args:
            step: the number of steps done without the component.
        """
        raise WeftError(
            f"component {self.name!r} has no state in the checkpoint after step {step}: the run was started "
            "without it.\n  leave it out of components=[…], or start a new run with a different "
            f"{words('--out', 'out')}"
        )
