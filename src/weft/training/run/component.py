"""What hooks into the training loop: one base class, every hook of which does nothing by default.

A component is called at every step and evaluation, may hold state that goes into checkpoints, and may add
fields to the log. weft's own are built like a user's: usage counts, task weights, gates, gradient conflicts,
early stopping and the moving average of the weights (`run/ema.py`).

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
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from weft.errors import WeftError

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
"""The lines of log.jsonl that components add to. What `end` gets is in metrics.json too."""


@dataclass(frozen=True)
class StepDone:
    """A step that has been taken.

    Attributes:
        step: its number, from 0, and its examples: `task` and `index` of each, [B]; the first `real` count.
        lr_factor: the learning rates as a share of their peaks.
        losses: Σ weight·loss over each task's examples, [T], of all processes; None unless a component of the
            run has `needs_losses`.
    """

    step: Step
    lr_factor: float
    losses: NDArray[np.float64] | None


class RunContext(Protocol):
    """What a component sees of the run: the training loop.

    Attributes:
        model: the model that trains.
        training: the settings of `train`.
        names: the tasks that train, [T]; examples name them by number.
        folder: the run's folder.
        processes: the processes that train together; each has every component, and all make the same calls.
        state: what the loop carries from step to step: `step`, the steps done; `stops`; `tasks`, with scores.
        before: the steps of the phase that finds L0 gates; 0 without one.
        total: the steps of the run.
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
        """Write a line of its own to log.jsonl."""
        ...

    def stop_task(self, task: int) -> None:
        """Sample a task no more, from the next step that the plan allows."""
        ...


class Component:
    """Something that hooks into the training loop; the hooks in the order in which a run calls them.

    Attributes:
        name: its name in checkpoints; no two components of a run have the same.
        needs_losses: whether `after_step` reads the losses of the step. They are then read after every step,
            which waits for the GPU.
        run: the run, from `begin` on.
    """

    name: ClassVar[str] = ""
    needs_losses: bool = False
    run: RunContext

    def begin(self, run: RunContext) -> None:
        """Before the first step. A run that is resumed calls this too, and then `load_state`."""
        self.run = run

    def at_phase(self, resumed: bool) -> None:
        """The phase after the one that finds L0 gates begins: what trains has changed.

        Args:
            resumed: whether the run goes on from a checkpoint of this phase; its state is loaded after this.
        """

    def before_step(self, number: int) -> None:
        """Before each step, and before the model chooses its examples where it does.

        Args:
            number: of the step, from 0.
        """

    def task_factors(self) -> NDArray[np.float32] | None:
        """What each task's loss is multiplied by in the next step, [T]; None: 1."""
        return None

    def after_step(self, done: StepDone) -> None:
        """After each step: `run.model` has its new weights, and `run.state.step` counts it."""

    def around_evaluation(self) -> AbstractContextManager[object]:
        """Inside, the model is evaluated, and its weights are kept if they are the best so far.

        The weights that the model has inside at the end of the run are those that it ends with.
        """
        return nullcontext()

    def after_evaluation(self) -> None:
        """After an evaluation that counts for the best model; not after that of the last step."""

    def log_fields(self, event: LogEvent) -> Mapping[str, Any]:
        """Further fields, fit for JSON, of a line of log.jsonl that is about to be written.

        Args:
            event: `step`, every `train.log_every` steps; `evaluation`; or `end`.
        """
        return {}

    def state(self) -> dict[str, Any] | None:
        """What a checkpoint keeps: by key what is fit for JSON, or a tensor.

        None: it keeps nothing from step to step, and may be added or left out when a run is resumed.
        """
        return None

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave; tensors are whole and on the CPU."""

    def without_state(self, step: int) -> None:
        """The run goes on from a checkpoint that has no state of this component; by default that is refused.

        Args:
            step: the steps that were done without it.
        """
        raise WeftError(
            f"component {self.name!r} has no state in the checkpoint after step {step}: the run was begun "
            "without it.\n  leave it out of components=[…], or begin anew with another --out"
        )
