"""SingleSteps: steps with one task each."""

from __future__ import annotations

import numpy as np

from weft.sampling.plan.batches import Batches, examples_in
from weft.sampling.plan.draw_counts import Turns
from weft.sampling.plan.lengths import Lengths
from weft.sampling.plan.orders import Orders
from weft.utils.counter_rng import Ints


class SingleSteps:
    """Step k samples a task and takes its next batch.

    A task with n examples per epoch has m = ⌈n / B⌉ batches per epoch, of which the last may be short. At
    position d it takes batch d mod m of epoch d div m.

    Args:
        turns: the draws, one per step.
        orders: the order of each task's examples.
        batch_size: the number of examples of a batch, B.
        lengths: the lengths for grouping; None: no grouping.
        seed: the random seed of the order of grouped batches.
    """

    def __init__(
        self, turns: Turns, orders: Orders, batch_size: int, lengths: Lengths | None, seed: int
    ) -> None:
        self._turns = turns
        tasks = range(len(orders.sizes))
        self._batches = [Batches(task, orders, batch_size, lengths, seed) for task in tasks]
        self._spans, self._batch_size = orders.spans, batch_size

    def examples(self, step: int) -> tuple[Ints, Ints]:
        """Return the task ids and indices of a step's examples, each [r] with r ≤ B."""
        task, position = self._turns.between(step, step + 1)
        index = self._batches[task[0]].batch(int(position[0]))
        return np.full(len(index), task[0]), index

    def totals(self, steps: int) -> tuple[Ints, Ints]:
        """Return each task's number of steps and of examples before step `steps`, both [T]."""
        drawn = self._turns.before(steps)
        return drawn, examples_in(drawn, self._spans, self._batch_size)
