"""The components of a run: those that the settings require, then the user's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.errors import WeftError
from weft.tasks.kinds import KINDS
from weft.training.conflict.telemetry import GradientConflict
from weft.training.optim.l0 import Gates
from weft.training.optim.task_weights import TaskWeights
from weft.training.run.component import Component, LogEvent, RunContext, StepDone
from weft.training.run.ema import Ema
from weft.training.run.stopping import Stopping
from weft.training.run.usage import Usage
from weft.training.trackers import trackers_of
from weft.training.trackers.tracking import Tracking
from weft.training.uncertainty.entropy_log import EntropyLog

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.training.run.phases import Phases
    from weft.training.settings import Training
    from weft.training.step.gradients import StepGradients

UNPREFIXED = "usage"
"""The component whose tensors have no prefix in a checkpoint, for compatibility with older checkpoints."""


def components_of(
    model: Model,
    training: Training,
    names: Sequence[str],
    sizes: Sequence[int],
    epoch_steps: int,
    phases: Phases,
    gradients: StepGradients,
) -> list[Component]:
    """The components that a run's settings require, in the order in which they are called.

    Args:
        model: the model.
        training: the settings of `train`.
        names: the names of the tasks that train, [T].
        sizes: the number of training examples of each, [T].
        epoch_steps: the steps of an epoch.
        phases: the phases of the run.
        gradients: computes the gradients of a step.
    """
    squared = [KINDS[model.tasks[model.task_id(name)].kind].squared for name in names]
    # log σ² has to change by about 1, for which the small learning rate of an encoder is too small
    rate = max(training.lr or 0.0, 1e-3)
    components: list[Component] = [
        Stopping(training.stop),
        Usage(names, sizes, training.starved, epoch_steps),
    ]
    if phases.gates:
        components.append(Gates(phases.gates, phases.before))
    components.append(TaskWeights(training.task_weights, names, squared, rate))
    if training.conflict is not None:
        components.append(GradientConflict(gradients))
    if training.measure_uncertainty:
        components.append(EntropyLog(training.measure_uncertainty, sizes, gradients))
    if training.ema is not None:
        components.append(Ema(training.ema))
    components += [Tracking(tracker) for tracker in trackers_of(training)]
    return components


class Components:
    """Calls every component of a run, one after the other.

    Args:
        components: in the order in which they are called; their names must be unique.
    """

    def __init__(self, components: Sequence[Component]) -> None:
        self._all = list(components)
        seen: dict[str, Component] = {}
        for component in self._all:
            if not isinstance(component, Component):
                raise WeftError(
                    f"components: expected instances of subclasses of weft.Component; found {component!r}"
                )
            name = component.name
            if not name or "/" in name:
                raise WeftError(
                    f"components: {type(component).__name__}.name is {name!r}; expected a name without '/', "
                    "under which a checkpoint saves its state"
                )
            if name in seen:
                classes = {type(component).__name__, type(seen[name]).__name__}
                hint = "; train.ema adds one already" if name == Ema.name else ""
                raise WeftError(
                    f"components: two are named {name!r} ({', '.join(sorted(classes))}){hint}: leave one "
                    "out, or rename it"
                )
            seen[name] = component

    def __iter__(self) -> Iterator[Component]:
        return iter(self._all)

    @property
    def need_losses(self) -> bool:
        """Whether any component reads the losses of every step."""
        return any(component.needs_losses for component in self)

    @property
    def change_evaluation(self) -> bool:
        """Whether any component may change the model in evaluations."""
        return any(type(c).around_evaluation is not Component.around_evaluation for c in self)

    def begin(self, run: RunContext) -> None:
        """See `Component`, as for the methods below."""
        for component in self:
            component.begin(run)

    def at_phase(self, resumed: bool) -> None:
        """Call `at_phase` of every component."""
        for component in self:
            component.at_phase(resumed)

    def before_step(self, number: int) -> None:
        """Call `before_step` of every component."""
        for component in self:
            component.before_step(number)

    def task_factors(self) -> NDArray[np.float32] | None:
        """The product of all components' factors, [T]; None: 1."""
        factors = [f for component in self if (f := component.task_factors()) is not None]
        return np.prod(factors, axis=0, dtype=np.float32) if factors else None

    def after_step(self, done: StepDone) -> None:
        """Call `after_step` of every component."""
        for component in self:
            component.after_step(done)

    @contextmanager
    def around_evaluation(self) -> Iterator[None]:
        """Enter `around_evaluation` of every component; the last component's context is the innermost."""
        with ExitStack() as stack:
            for component in self:
                stack.enter_context(component.around_evaluation())
            yield

    def after_evaluation(self) -> None:
        """Call `after_evaluation` of every component."""
        for component in self:
            component.after_evaluation()

    def log_fields(self, event: LogEvent, taken: Sequence[str]) -> dict[str, Any]:
        """The fields of all components; duplicate names are an error.

        Args:
            event: the line that the fields are for.
            taken: the fields that the line has already.
        """
        fields: dict[str, Any] = {}
        for component in self:
            for key, value in component.log_fields(event).items():
                if key in fields or key in ("event", "time", *taken):
                    raise WeftError(
                        f"component {component.name!r} logs {key!r}, which the line {event!r} has already: "
                        "rename the field"
                    )
                fields[key] = value
        return fields

    def logged(self, line: Mapping[str, Any]) -> None:
        """Call `logged` of every component."""
        for component in self:
            component.logged(line)

    def close(self, failed: bool) -> None:
        """Call `close` of every component."""
        for component in self:
            component.close(failed)

    def states(self) -> tuple[dict[str, dict[str, Any]], dict[str, Tensor]]:
        """The states of all components in the form of a checkpoint.

        Returns:
            The JSON-serializable state by component, and the tensors of all components: `NAME/KEY`.
        """
        parts: dict[str, dict[str, Any]] = {}
        tensors: dict[str, Tensor] = {}
        for component in self:
            state = component.state()
            if state is None:
                continue
            parts[component.name] = {k: v for k, v in state.items() if not isinstance(v, Tensor)}
            prefix = _prefix(component.name)
            tensors |= {prefix + k: v for k, v in state.items() if isinstance(v, Tensor)}
        return parts, tensors

    def load_states(
        self, parts: Mapping[str, Mapping[str, Any]], tensors: Mapping[str, Tensor], step: int
    ) -> None:
        """Restore the result of `states`.

        Args:
            parts: the JSON-serializable state by component.
            tensors: the tensors of all components.
            step: the number of steps done at the checkpoint.
        """
        known = [component.name for component in self]
        gone = [name for name in parts if name not in known]
        if gone:
            raise WeftError(
                f"the checkpoint after step {step} contains the state of component {gone[0]!r}, which this "
                f"run does not have (it has {', '.join(known)}).\n"
                "  resume with the same components: weft.train(…, resume=True, components=[…])"
            )
        for component in self:
            if component.name in parts:
                prefix = _prefix(component.name)
                component_tensors = {
                    key.removeprefix(prefix): tensor
                    for key, tensor in tensors.items()
                    if (key.startswith(prefix) if prefix else "/" not in key)
                }
                component.load_state({**parts[component.name], **component_tensors})
            elif component.state() is not None:
                component.without_state(step)

    @torch.no_grad()
    def make_lasting(self, weights: Mapping[str, Tensor]) -> None:
        """At the end of the run, keep the weights that the model has in evaluations.

        Args:
            weights: the tensors that the run may have changed, sharing the model's memory.
        """
        if not self.change_evaluation:
            return
        with self.around_evaluation():
            evaluated = {name: tensor.clone() for name, tensor in weights.items()}
        for name, tensor in weights.items():
            tensor.copy_(evaluated[name])


def _prefix(name: str) -> str:
    return "" if name == UNPREFIXED else f"{name}/"
