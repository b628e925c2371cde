"""The batches of one task."""

from __future__ import annotations

import numpy as np

from weft.sampling.plan.grouping import WINDOW, group_batches
from weft.sampling.plan.lengths import Lengths
from weft.sampling.plan.orders import Orders
from weft.utils.counter_rng import Ints, bits, draw_key


def examples_in(batches: Ints, spans: Ints, batch_size: int) -> Ints:
    """Return the number of examples in the first batches of each task, [T].

    Args:
        batches: the number of batches, [T].
        spans: the number of examples per epoch of each task, [T].
        batch_size: the number of examples of a batch, B.
    """
    epochs, rest = np.divmod(batches, -(-spans // batch_size))
    return epochs * spans + rest * batch_size  # the short batch is the last of an epoch


class Batches:
    """The batches of a task, computed one window at a time.

    A window never crosses the end of an epoch, so that grouping does not mix two epochs.

    Args:
        task: the task id.
        orders: the order of each task's examples.
        batch_size: the number of examples of a batch, B.
        lengths: the lengths for grouping; None: no grouping.
        seed: the random seed of the order of grouped batches.
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
        self._batches_per_epoch = -(-self._span // batch_size)
        self._at = (-1, -1)  # the epoch and the window in memory
        self._window: list[Ints] = []

    def batch(self, position: int) -> Ints:
        """Return the indices of the batch at `position`, [r] with 1 ≤ r ≤ B."""
        epoch, number = divmod(position, self._batches_per_epoch)
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
        windows_per_epoch = -(-self._batches_per_epoch // WINDOW)
        key = bits(self._key, np.asarray(epoch * windows_per_epoch + window, np.uint64))
        lengths = self._lengths.of(self._task, index)
        return [index[batch] for batch in group_batches(lengths, self._batch_size, key)]
