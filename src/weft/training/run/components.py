"""The components of a run: weft's own, as the settings ask for them, then the user's."""

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

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.training.run.phases import Phases
    from weft.training.settings import Training
    from weft.training.step.gradients import StepGradients

UNPREFIXED = "usage"
"""The component whose tensors have no prefix in a checkpoint: they were there before components were."""


def components_of(
    model: Model,
    training: Training,
    names: Sequence[str],
    sizes: Sequence[int],
    epoch_steps: int,
    phases: Phases,
    gradients: StepGradients,
) -> list[Component]:
    """The components that a run's settings ask for, in the order in which they are called.

    Args:
        model: the model.
        training: how it is trained.
        names: the tasks that train, [T].
        sizes: their training examples, [T].
        epoch_steps: the steps of an epoch.
        phases: of the run.
        gradients: what computes the gradients of a step.
    """
    squared = [KINDS[model.tasks[model.task_id(name)].kind].squared for name in names]
    # a log has to move by about 1, whatever small rate suits an encoder
    rate = max(training.lr or 0.0, 1e-3)
    found: list[Component] = [Stopping(training.stop), Usage(names, sizes, training.starved, epoch_steps)]
    if phases.gates:
        found.append(Gates(phases.gates, phases.before))
    found.append(TaskWeights(training.task_weights, names, squared, rate))
    if training.conflict is not None:
        found.append(GradientConflict(gradients))
    if training.ema is not None:
        found.append(Ema(training.ema))
    return found


class Components:
    """Calls every component of a run, one after the other.

    Args:
        components: in the order in which they are called; no two with one name.
    """

    def __init__(self, components: Sequence[Component]) -> None:
        self._all = list(components)
        seen: dict[str, Component] = {}
        for component in self._all:
            if not isinstance(component, Component):
                raise WeftError(
                    f"components: expected objects of subclasses of weft.Component; found {component!r}"
                )
            name = component.name
            if not name or "/" in name:
                raise WeftError(
                    f"components: {type(component).__name__}.name is {name!r}; expected a name without '/', "
                    "by which a checkpoint keeps its state"
                )
            if name in seen:
                theirs = {type(component).__name__, type(seen[name]).__name__}
                hint = "; train.ema is one already" if name == Ema.name else ""
                raise WeftError(
                    f"components: two are named {name!r} ({', '.join(sorted(theirs))}){hint}: leave one out, "
                    "or give it another name"
                )
            seen[name] = component

    def __iter__(self) -> Iterator[Component]:
        return iter(self._all)

    @property
    def need_losses(self) -> bool:
        """Whether any reads the losses of every step."""
        return any(component.needs_losses for component in self)

    @property
    def change_evaluation(self) -> bool:
        """Whether any may change the model where it is evaluated."""
        return any(type(one).around_evaluation is not Component.around_evaluation for one in self)

    def begin(self, run: RunContext) -> None:
        """See `Component`, here and below."""
        for component in self:
            component.begin(run)

    def at_phase(self, resumed: bool) -> None:
        """What trains has changed."""
        for component in self:
            component.at_phase(resumed)

    def before_step(self, number: int) -> None:
        """A step comes."""
        for component in self:
            component.before_step(number)

    def task_factors(self) -> NDArray[np.float32] | None:
        """The product of all components' factors, [T]; None: 1."""
        found = [factors for one in self if (factors := one.task_factors()) is not None]
        return np.prod(found, axis=0, dtype=np.float32) if found else None

    def after_step(self, done: StepDone) -> None:
        """A step is done."""
        for component in self:
            component.after_step(done)

    @contextmanager
    def around_evaluation(self) -> Iterator[None]:
        """Inside, the model is as it is to be evaluated; the last component's context is the innermost."""
        with ExitStack() as stack:
            for component in self:
                stack.enter_context(component.around_evaluation())
            yield

    def after_evaluation(self) -> None:
        """An evaluation is done."""
        for component in self:
            component.after_evaluation()

    def log_fields(self, event: LogEvent, taken: Sequence[str]) -> dict[str, Any]:
        """The fields of all components; two of one name are refused.

        Args:
            event: which line they are for.
            taken: the fields that the line has without them.
        """
        found: dict[str, Any] = {}
        for component in self:
            for key, value in component.log_fields(event).items():
                if key in found or key in ("event", "time", *taken):
                    raise WeftError(
                        f"component {component.name!r} logs {key!r}, which the line {event!r} has already: "
                        "give the field another name"
                    )
                found[key] = value
        return found

    def states(self) -> tuple[dict[str, dict[str, Any]], dict[str, Tensor]]:
        """The states of all components as a checkpoint keeps them.

        Returns:
            By component what is fit for JSON, and the tensors of all: `NAME/KEY`.
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
        """Go on from what `states` gave.

        Args:
            parts: the first of it.
            tensors: the second.
            step: the steps that were done by then.
        """
        known = [component.name for component in self]
        gone = [name for name in parts if name not in known]
        if gone:
            raise WeftError(
                f"the checkpoint after step {step} holds the state of component {gone[0]!r}, which this run "
                f"does not have (it has {', '.join(known)}).\n"
                "  resume with the same components: weft.train(…, resume=True, components=[…])"
            )
        for component in self:
            if component.name in parts:
                prefix = _prefix(component.name)
                own = {
                    key.removeprefix(prefix): tensor
                    for key, tensor in tensors.items()
                    if (key.startswith(prefix) if prefix else "/" not in key)
                }
                component.load_state({**parts[component.name], **own})
            elif component.state() is not None:
                component.without_state(step)

    @torch.no_grad()
    def make_lasting(self, weights: Mapping[str, Tensor]) -> None:
        """What weights are in evaluations, they are from now on: the run has ended.

        Args:
            weights: those that the run may have changed, as they live in the model.
        """
        if not self.change_evaluation:
            return
        with self.around_evaluation():
            evaluated = {name: tensor.clone() for name, tensor in weights.items()}
        for name, tensor in weights.items():
            tensor.copy_(evaluated[name])


def _prefix(name: str) -> str:
    return "" if name == UNPREFIXED else f"{name}/"
