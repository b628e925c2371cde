"""The chooser of a run: it selects a step's examples among the plan's candidates."""

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

    The choice depends only on the weights and the candidates: a chooser has no state.

    Attributes:
        proxy_names: task → the task whose scores it uses, by name; for the log.

    Args:
        model: the model.
        names: the names of the tasks that train, in the plan's order, [T].
        ids: the model's id of each task, [T].
        sizes: the number of training examples of each task, [T].
        settings: the settings of the sampler `mt_uncertainty`.
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
        self.proxy_names = {names[i]: names[j] for i, j in self.proxy.items()}
        self._remaining: dict[tuple[int, ...], dict[int, int]] = {}

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
