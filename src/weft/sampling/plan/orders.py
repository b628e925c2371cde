"""The order of a task's examples: every epoch is a different permutation, or several in sequence."""

from __future__ import annotations

import numpy as np

from weft.utils.counter_rng import Ints, bits, draw_key
from weft.utils.permutation import permute


class Orders:
    """The orders of all tasks: the example at each place of an epoch.

    An epoch that is longer than the task repeats its examples, each time in a different order, and may end in
    the middle of the last pass: p places hold each of n examples ⌊p/n⌋ or ⌈p/n⌉ times.

    Args:
        sizes: the number of examples of each task, [T].
        seed: the random seed of the permutations.
        spans: the number of places of an epoch of each task, at least its size, [T]; default: its size.
    """

    def __init__(self, sizes: Ints, seed: int, spans: Ints | None = None) -> None:
        self.sizes = sizes
        self.spans = sizes if spans is None else spans
        self._passes = -(-self.spans // sizes)
        self._keys = np.array([draw_key(seed, "order", task) for task in range(len(sizes))])

    def examples(self, task: int | Ints, epoch: int | Ints, place: Ints) -> Ints:
        """Return the indices of the examples in their tasks' training sets.

        Args:
            task: task ids; broadcast with the other two.
            epoch: 0, 1, 2, …
            place: in range(span of the task).
        """
        size = self.sizes[task]
        pass_number, place = np.divmod(place, size)
        key = bits(self._keys[task], np.asarray(epoch * self._passes[task] + pass_number, np.uint64))
        return permute(place, size, key)
