"""Steps whose examples are chosen among candidates: each task's next batch."""

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
    """What a step may train on, in the order of the tasks and, within a task, of its batch.

    Attributes:
        number: the step.
        task: the task id of each candidate, [C].
        index: which example of that task's training set, [C].
    """

    number: int
    task: Ints
    index: Ints


class CandidateSteps:
    """At step k each task that has not stopped offers its batch k mod m of epoch k div m, m = ⌈n / B⌉.

    Args:
        orders: the order of each task's examples.
        batch_size: the examples of a batch, B.
        lengths: for grouping by length, within each task; None: no grouping.
        seed: of the grouped batches' order.
        stops: (step, task id) from which on a task offers nothing.
    """

    def __init__(
        self, orders: Orders, batch_size: int, lengths: Lengths | None, seed: int, stops: Stops
    ) -> None:
        tasks = range(len(orders.sizes))
        self._batches = [Batches(task, orders, batch_size, lengths, seed) for task in tasks]
        self._spans, self._batch_size = orders.spans, batch_size
        self._stop = np.full(len(tasks), np.iinfo(np.int64).max)  # [T]
        for step, task in stops:
            self._stop[task] = step

    def examples(self, step: int) -> tuple[Ints, Ints]:
        """The task ids and indices of a step's candidates, each [C]."""
        tasks = np.flatnonzero(step < self._stop)
        index = [self._batches[task].batch(step) for task in tasks]
        return np.repeat(tasks, [len(batch) for batch in index]), np.concatenate(index)

    def totals(self, steps: int) -> tuple[Ints, Ints]:
        """How many batches and how many examples each task offers in the steps before `steps`, both [T]."""
        offered = np.minimum(steps, self._stop)
        return offered, examples_in(offered, self._spans, self._batch_size)
