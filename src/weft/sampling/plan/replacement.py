"""Replacement: examples drawn with replacement, independently of each other."""

from __future__ import annotations

import numpy as np

from weft.sampling.plan.orders import Orders
from weft.utils.counter_rng import Bits, Ints, bits, draw_key

_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)


class Replacement(Orders):
    """An order in which each place has a uniformly random example.

    It is one epoch that never ends: it has more places than there will ever be draws, and a multiple of the
    batch size. The example at a place is ⌊u·n / 2⁶⁴⌋, with u the random 64 bits of (seed, task, place).

    Args:
        sizes: n, the number of examples of each task, below 2³², [T].
        seed: the random seed of the draws.
        batch_size: the number of examples of a batch.
    """

    def __init__(self, sizes: Ints, seed: int, batch_size: int) -> None:
        super().__init__(sizes, seed, np.full_like(sizes, 2**62 // batch_size * batch_size))
        self._draws = np.array([draw_key(seed, "replacement", task) for task in range(len(sizes))])

    def examples(self, task: int | Ints, epoch: int | Ints, place: Ints) -> Ints:
        """Return the indices of the examples in their tasks' training sets.

        Args:
            task: task ids; broadcast with `place`.
            epoch: 0, the only one.
            place: 0, 1, 2, …
        """
        u = bits(self._draws[task], np.asarray(place, np.uint64))
        return _times(u, self.sizes[task].astype(np.uint64)).astype(np.int64)


def _times(u: Bits, n: Bits) -> Bits:
    """⌊u·n / 2⁶⁴⌋ for n < 2³², by halves: the product itself would overflow."""
    return np.asarray(((u >> _HALF) * n + (((u & _LOW) * n) >> _HALF)) >> _HALF)
