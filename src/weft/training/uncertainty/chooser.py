"""The choice of a step's examples in a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from weft.sampling.samplers.mt_uncertainty import MtUncertainty
from weft.training.uncertainty.choosing import Floats, choose
from weft.training.uncertainty.measures import measures
from weft.training.uncertainty.proxies import proxies, remaining

if TYPE_CHECKING:
    from torch import Tensor

    from weft.model.model import Model
    from weft.model.output import Output
    from weft.sampling.plan.plan import Plan
    from weft.utils.counter_rng import Ints


class Chooser:
    """Measures candidates and chooses among them, by a sampler's settings.

    The choice is a function of the weights and of the candidates alone: it has no state of its own.

    Attributes:
        told: task → the task whose scores it takes, by name: for the log.

    Args:
        model: the model.
        names: the tasks that train, in the plan's order, [T].
        ids: the model's id of each, [T].
        sizes: the training examples of each, [T].
        settings: of `mt_uncertainty`.
    """

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
        self.told = {names[i]: names[j] for i, j in self.proxy.items()}
        self._remaining: dict[tuple[int, ...], dict[int, int]] = {}

    def measures(self, output: Output, labels: Mapping[str, Tensor] | None = None) -> Tensor:
        """How unsure the model is of each example of its output, [E]; see `measures`."""
        return measures(self.model, output, self.settings.measure, labels)

    def places(self, measure: Floats | Tensor, task: Ints, batch_size: int) -> Ints:
        """The places of the candidates that the step takes, best first; see `choose`.

        Args:
            measure: of each candidate, [C].
            task: the plan's task of each, [C].
            batch_size: how many to take.
        """
        task = np.asarray(task, np.int64)
        return choose(np.asarray(measure), task, batch_size, self.settings.rule, self._proxies(task))

    def _proxies(self, task: Ints) -> dict[int, int]:
        """The proxies among the tasks that have candidates: a stopped task has none."""
        present = tuple(np.unique(task).tolist())
        if present not in self._remaining:
            self._remaining[present] = remaining(self.proxy, present, self.tasks, self.sizes)
        return self._remaining[present]


def chooser_of(model: Model, names: Sequence[str], sizes: Sequence[int], plan: Plan) -> Chooser | None:
    """What chooses among the candidates of a plan; None where the plan is all there is to know.

    Args:
        model: the model.
        names: the tasks that train, [T].
        sizes: their training examples, [T].
        plan: of the run.
    """
    if not isinstance(plan.sampler, MtUncertainty):
        return None
    return Chooser(model, names, [model.task_id(name) for name in names], sizes, plan.sampler)
