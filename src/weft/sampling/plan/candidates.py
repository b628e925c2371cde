"""CandidateSteps: steps whose examples are chosen among candidates, the next batch of each task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.sampling.plan.batches import Batches, examples_in
from weft.sampling.plan.lengths import Lengths
from weft.sampling.plan.orders import Orders
from weft.sampling.plan.stops import Stops
from weft.utils.counter_rng import Ints


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of a step, in the order of the tasks and, within a task, of its batch.

    Attributes:
        number: the step.
        task: the task id of each candidate, [C].
        index: the index of each candidate in its task's training set, [C].
    """

    number: int
    task: Ints
    index: Ints


class CandidateSteps:
    """At step k each task that has not stopped offers its batch k mod m of epoch k div m, m = ⌈n / C⌉.

    Args:
        orders: the order of each task's examples.
        offered: the number of candidates per task, C.
        lengths: the lengths for grouping within each task; None: no grouping.
        seed: the random seed of the order of grouped batches.
        stops: (step, task id); from that step on the task has no candidates.
    """

    def __init__(
        self, orders: Orders, offered: int, lengths: Lengths | None, seed: int, stops: Stops
    ) -> None:
        tasks = range(len(orders.sizes))
        self._batches = [Batches(task, orders, offered, lengths, seed) for task in tasks]
        self._spans, self._offered = orders.spans, offered
        self._stop = np.full(len(tasks), np.iinfo(np.int64).max)  # [T]
        for step, task in stops:
            self._stop[task] = step

    def examples(self, step: int) -> tuple[Ints, Ints]:
        """Return the task ids and indices of a step's candidates, each [C]."""
        tasks = np.flatnonzero(step < self._stop)
        index = [self._batches[task].batch(step) for task in tasks]
        return np.repeat(tasks, [len(batch) for batch in index]), np.concatenate(index)

    def totals(self, steps: int) -> tuple[Ints, Ints]:
        """Return each task's numbers of offered batches and examples before step `steps`, both [T]."""
        batches = np.minimum(steps, self._stop)
        return batches, examples_in(batches, self._spans, self._offered)
