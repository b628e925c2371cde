"""MixedSteps: steps of many tasks, with a task sampled for every example."""

from __future__ import annotations

import numpy as np

from weft.sampling.plan.draw_counts import BLOCK, Turns
from weft.sampling.plan.grouping import WINDOW, group_mixed
from weft.sampling.plan.lengths import Lengths
from weft.sampling.plan.orders import Orders
from weft.utils.counter_rng import Ints, bits, draw_key

assert BLOCK % WINDOW == 0  # the draws of a window are in one block


class MixedSteps:
    """Step k makes B draws, and each takes the next example of its task.

    A task with n examples per epoch takes, at position d, the example at place d mod n of epoch d div n: an
    epoch may begin in the middle of a step, and no batch is short.

    Args:
        turns: the draws, B per step.
        orders: the order of each task's examples.
        batch_size: the number of examples of a batch, B.
        lengths: the lengths for grouping; None: no grouping.
        seed: the random seed of the order of grouped batches.
    """

    def __init__(
        self, turns: Turns, orders: Orders, batch_size: int, lengths: Lengths | None, seed: int
    ) -> None:
        self._turns = turns
        self._orders = orders
        self._batch_size = batch_size
        self._lengths = lengths
        self._key = draw_key(seed, "window")
        self._at = -1  # the window in memory
        self._window: tuple[Ints, Ints]  # its task ids and indices, each [64, B]

    def examples(self, step: int) -> tuple[Ints, Ints]:
        """Return the task ids and indices of a step's examples, each [B]."""
        window, place = divmod(step, WINDOW)
        if self._at != window:
            self._window = self._make(window)
            self._at = window
        task, index = self._window
        return task[place], index[place]

    def totals(self, steps: int) -> tuple[Ints, Ints]:
        """Return each task's numbers of draws and examples before step `steps`, which are equal, both [T]."""
        whole = steps - steps % WINDOW
        drawn = self._turns.before(whole)
        for step in range(whole, steps):  # grouping moves draws within a window
            drawn += np.bincount(self.examples(step)[0], minlength=len(drawn))
        return drawn, drawn

    def _make(self, window: int) -> tuple[Ints, Ints]:
        task, position = self._turns.between(window * WINDOW, (window + 1) * WINDOW)
        epoch, place = np.divmod(position, self._orders.spans[task])
        index = self._orders.examples(task, epoch, place)
        if self._lengths is not None:
            key = bits(self._key, np.asarray(window, np.uint64))
            draw = group_mixed(self._lengths.of(task, index), task, epoch, self._batch_size, key)
            task, index = task[draw], index[draw]
        return task.reshape(WINDOW, -1), index.reshape(WINDOW, -1)
