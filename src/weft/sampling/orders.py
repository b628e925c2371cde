"""The order of a task's examples: every epoch is a permutation of its own."""

from __future__ import annotations

import numpy as np

from weft.sampling.draws import Ints, bits, draw_key
from weft.sampling.permutation import permute


class Orders:
    """All tasks' orders: the example at a place of an epoch.

    Args:
        sizes: the number of examples of each task, [T].
        seed: of the permutations.
    """

    def __init__(self, sizes: Ints, seed: int) -> None:
        self.sizes = sizes
        self._keys = np.array([draw_key(seed, "order", task) for task in range(len(sizes))])

    def examples(self, task: int | Ints, epoch: int | Ints, place: Ints) -> Ints:
        """The examples' indices into their tasks' training sets.

        Args:
            task: task ids; with the other two, of shapes that broadcast.
            epoch: 0, 1, 2, …
            place: in range(size of the task); each place of an epoch has another example.
        """
        key = bits(self._keys[task], np.asarray(epoch, np.uint64))
        return permute(place, self.sizes[task], key)
