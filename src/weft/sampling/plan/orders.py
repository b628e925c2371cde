"""The order of a task's examples: every epoch is a permutation of its own, or several one after the other."""

from __future__ import annotations

import numpy as np

from weft.utils.counter_rng import Ints, bits, draw_key
from weft.utils.permutation import permute


class Orders:
    """All tasks' orders: the example at a place of an epoch.

    An epoch that is longer than the task passes through its examples again and again, in another order each
    time, and ends in the middle of the last pass: p places hold each of n examples ⌊p/n⌋ or ⌈p/n⌉ times.

    Args:
        sizes: the number of examples of each task, [T].
        seed: of the permutations.
        spans: the places of an epoch of each task, at least its size, [T]; by default as many.
    """

    def __init__(self, sizes: Ints, seed: int, spans: Ints | None = None) -> None:
        self.sizes = sizes
        self.spans = sizes if spans is None else spans
        self._passes = -(-self.spans // sizes)
        self._keys = np.array([draw_key(seed, "order", task) for task in range(len(sizes))])

    def examples(self, task: int | Ints, epoch: int | Ints, place: Ints) -> Ints:
        """The examples' indices into their tasks' training sets.

        Args:
            task: task ids; with the other two, of shapes that broadcast.
            epoch: 0, 1, 2, …
            place: in range(span of the task).
        """
        size = self.sizes[task]
        again, place = np.divmod(place, size)
        key = bits(self._keys[task], np.asarray(epoch * self._passes[task] + again, np.uint64))
        return permute(place, size, key)
