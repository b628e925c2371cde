"""Steps of one task each."""

from __future__ import annotations

import numpy as np

from weft.sampling.draws import Ints, bits, draw_key
from weft.sampling.grouping import WINDOW, group_batches
from weft.sampling.lengths import Lengths
from weft.sampling.orders import Orders
from weft.sampling.turns import Turns


class SingleSteps:
    """Step k draws a task and takes its next batch.

    A task with n examples an epoch has m = ⌈n / B⌉ batches in it, of which the last may be short. At position
    d it takes batch d mod m of epoch d div m.

    Args:
        turns: the draws, one a step.
        orders: the order of each task's examples.
        batch_size: the examples of a batch, B.
        lengths: for grouping by length; None: no grouping.
        seed: of the grouped batches' order.
    """

    def __init__(
        self, turns: Turns, orders: Orders, batch_size: int, lengths: Lengths | None, seed: int
    ) -> None:
        self._turns = turns
        self._batches = [
            _Batches(task, orders, batch_size, lengths, seed) for task in range(len(orders.sizes))
        ]
        self._spans, self._batch_size = orders.spans, batch_size

    def examples(self, step: int) -> tuple[Ints, Ints]:
        """The task ids and indices of a step's examples, each [r] with r ≤ B."""
        task, position = self._turns.between(step, step + 1)
        index = self._batches[task[0]].batch(int(position[0]))
        return np.full(len(index), task[0]), index

    def totals(self, steps: int) -> tuple[Ints, Ints]:
        """How many steps and how many examples each task has in the steps before `steps`, both [T]."""
        drawn = self._turns.before(steps)
        epochs, batches = np.divmod(drawn, -(-self._spans // self._batch_size))
        return drawn, epochs * self._spans + batches * self._batch_size  # the short batch ends an epoch


class _Batches:
    """The batches of one task, made a window at a time.

    Windows are cut within an epoch, so that grouping never brings two epochs together.
    """

    def __init__(
        self, task: int, orders: Orders, batch_size: int, lengths: Lengths | None, seed: int
    ) -> None:
        self._task = task
        self._orders = orders
        self._batch_size = batch_size
        self._lengths = lengths
        self._key = draw_key(seed, "window", task)
        self._span = int(orders.spans[task])
        self._an_epoch = -(-self._span // batch_size)
        self._at = (-1, -1)  # the epoch and the window that are at hand
        self._window: list[Ints] = []

    def batch(self, position: int) -> Ints:
        """The indices of the batch at `position`, [r] with 1 ≤ r ≤ B."""
        epoch, number = divmod(position, self._an_epoch)
        window, place = divmod(number, WINDOW)
        if self._at != (epoch, window):
            self._window = self._make(epoch, window)
            self._at = (epoch, window)
        return self._window[place]

    def _make(self, epoch: int, window: int) -> list[Ints]:
        first = window * WINDOW * self._batch_size
        places = np.arange(first, min(first + WINDOW * self._batch_size, self._span))
        index = self._orders.examples(self._task, epoch, places)
        if self._lengths is None:
            return np.split(index, range(self._batch_size, len(index), self._batch_size))
        windows_an_epoch = -(-self._an_epoch // WINDOW)
        key = bits(self._key, np.asarray(epoch * windows_an_epoch + window, np.uint64))
        lengths = self._lengths.of(self._task, index)
        return [index[batch] for batch in group_batches(lengths, self._batch_size, key)]
