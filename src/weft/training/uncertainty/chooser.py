"""The chooser of a run: it selects a step's examples among the plan's candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import WeftError
from weft.sampling.samplers.mt_uncertainty import MtUncertainty
from weft.training.run.component import Component
from weft.training.uncertainty.choosing import Floats, choose, position
from weft.training.uncertainty.measures import measures
from weft.training.uncertainty.proxies import proxies, remaining

if TYPE_CHECKING:
    from torch import Tensor

    from weft.model.model import Model
    from weft.model.output import Output
    from weft.sampling.plan.plan import Candidates, Plan, Step
    from weft.training.step.gradients import Measures
    from weft.utils.counter_rng import Ints


Measured = Callable[["Candidates", "Measures", bool, Callable[[str], None]], Floats]
"""Measures candidates, [C], with dropout or without; see `Driver.measured`."""


class Chooser(Component):
    """Measures candidates and chooses among them, by a sampler's settings.

    A choice depends only on the weights and the candidates. With `every: k` the steps between two choices
    repeat how many examples of each task the last choice took, which is then part of every checkpoint.

    Attributes:
        proxy_names: task → the task whose scores it uses, by name; for the log.
        measured: the measure of each example of the last step, best first, nan without one, [r]; None: the
            step was not measured.

    Args:
        model: the model.
        names: the names of the tasks that train, in the plan's order, [T].
        ids: the model's id of each task, [T].
        sizes: the number of training examples of each task, [T].
        settings: the settings of the sampler `mt_uncertainty`.
    """

    name = "mt_uncertainty"

    def __init__(
        self,
        model: Model,
        names: Sequence[str],
        ids: Sequence[int],
        sizes: Sequence[int],
        settings: MtUncertainty,
    ) -> None:
        self.model, self.settings, self.sizes = model, settings, list(sizes)
        self.tasks = [model.tasks[int(i)] for i in ids]
        self.proxy = proxies(self.tasks, self.sizes, settings)
        self.proxy_names = {names[i]: names[j] for i, j in self.proxy.items()}
        self._remaining: dict[tuple[int, ...], dict[int, int]] = {}
        self.measured: Floats | None = None
        self._taken: list[int] | None = None  # the examples of each task in the last choice, [T]
        exit_layer = settings.exit_layer
        if exit_layer is not None and exit_layer > model.num_layers:
            raise WeftError(
                f"train.sampler.exit_layer: {exit_layer}, but the encoder has {model.num_layers} "
                f"blocks; expected 1 to {model.num_layers}, or null"
            )

    def step(self, plan: Plan, number: int, measured: Measured, say: Callable[[str], None]) -> Step:
        """The examples of a step: those that the model is least certain of.

        Args:
            plan: the plan, which gives the candidates.
            number: the number of the step.
            measured: measures candidates, [C]: `Driver.measured`.
            say: shows a line to the user.
        """
        candidates = plan.candidates(number)
        places = None if number % self.settings.every == 0 else self._like_last(candidates.task)
        if places is None:
            with self.model.running_until(self.settings.exit_layer):
                values = np.asarray(measured(candidates, self.measures, self.settings.dropout, say))
            places = self.places(values, candidates.task, plan.batch_size)
            self.measured = values[places]
            self._taken = np.bincount(candidates.task[places], minlength=len(self.tasks)).tolist()
        else:
            self.measured = None
        return plan.chosen(candidates, places)

    def chosen_fields(self, step: Step) -> dict[str, Any]:
        """The fields of a line of the log: the examples of a step, and the measure of each if there is one.

        `measure` is null in a step without a choice, and for an example of a task without a measure.
        """
        values = None if self.measured is None else self.measured.tolist()
        return {
            "step": step.number,
            "task": step.task[: step.real].tolist(),
            "index": step.index[: step.real].tolist(),
            "measure": values and [round(x, 6) if math.isfinite(x) else None for x in values],
        }

    def state(self) -> dict[str, Any] | None:
        """See `Component`; there is none if every step chooses."""
        return None if self.settings.every == 1 else {"taken": self._taken}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """See `Component`."""
        self._taken = state["taken"]

    def _like_last(self, task: Ints) -> Ints | None:
        """The first candidates of each task, as many as the last choice took; None: choose again.

        Args:
            task: the plan's task of each candidate, [C].
        """
        taken = np.zeros(len(self.tasks), np.int64) if self._taken is None else np.array(self._taken)
        # a task that has stopped has no candidates: its share goes to the others by a new choice
        if not taken.any() or not np.isin(np.flatnonzero(taken), task).all():
            return None
        return np.flatnonzero(position(task) < taken[task])

    def measures(self, output: Output, labels: Mapping[str, Tensor] | None = None) -> Tensor:
        """The model's uncertainty of each example of its output, [E]; see `measures`."""
        return measures(self.model, output, self.settings.measure, labels)

    def places(self, measure: Floats | Tensor, task: Ints, batch_size: int) -> Ints:
        """The positions of the candidates that the step trains on, best first; see `choose`.

        Args:
            measure: the measure of each candidate, [C].
            task: the plan's task of each, [C].
            batch_size: the number of candidates to choose.
        """
        task = np.asarray(task, np.int64)
        return choose(np.asarray(measure), task, batch_size, self.settings.rule, self._proxies(task))

    def _proxies(self, task: Ints) -> dict[int, int]:
        """The proxies among the tasks with candidates: a stopped task has none."""
        present = tuple(np.unique(task).tolist())
        if present not in self._remaining:
            self._remaining[present] = remaining(self.proxy, present, self.tasks, self.sizes)
        return self._remaining[present]


def choice_cost(plan: Plan, model: Model) -> float:
    """The cost per step of measuring candidates, relative to a whole pass over those of every step.

    Args:
        plan: a plan whose sampler chooses.
        model: the model.
    """
    if not isinstance(plan.sampler, MtUncertainty):
        return 1.0
    blocks = plan.sampler.exit_layer or model.num_layers
    return min(1.0, blocks / model.num_layers) / plan.sampler.every


def chooser_of(model: Model, names: Sequence[str], sizes: Sequence[int], plan: Plan) -> Chooser | None:
    """The chooser among the candidates of a plan; None if the plan alone decides on the examples.

    Args:
        model: the model.
        names: the names of the tasks that train, [T].
        sizes: the number of training examples of each, [T].
        plan: the plan of the run.
    """
    if not isinstance(plan.sampler, MtUncertainty):
        return None
    return Chooser(model, names, [model.task_id(name) for name in names], sizes, plan.sampler)
