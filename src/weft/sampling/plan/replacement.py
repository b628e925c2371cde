"""Examples drawn with replacement: each draw is independent of all others."""

from __future__ import annotations

import numpy as np

from weft.sampling.plan.orders import Orders
from weft.utils.counter_rng import Bits, Ints, bits, draw_key

_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)


class Replacement(Orders):
    """An order in which any example may come at any place, as likely as every other.

    It is one epoch that never ends: it has more places than there will ever be draws, and so many that
    batches fill it up. The example at a place is ⌊u·n / 2⁶⁴⌋, with u the draw of 64 bits that belongs to
    (seed, task, place).

    Args:
        sizes: n, the number of examples of each task, below 2³², [T].
        seed: of the draws.
        batch_size: the examples of a batch.
    """

    def __init__(self, sizes: Ints, seed: int, batch_size: int) -> None:
        super().__init__(sizes, seed, np.full_like(sizes, 2**62 // batch_size * batch_size))
        self._draws = np.array([draw_key(seed, "replacement", task) for task in range(len(sizes))])

    def examples(self, task: int | Ints, epoch: int | Ints, place: Ints) -> Ints:
        """The examples' indices into their tasks' training sets.

        Args:
            task: task ids; with `place`, of shapes that broadcast.
            epoch: 0, the only one.
            place: 0, 1, 2, …
        """
        u = bits(self._draws[task], np.asarray(place, np.uint64))
        return _times(u, self.sizes[task].astype(np.uint64)).astype(np.int64)


def _times(u: Bits, n: Bits) -> Bits:
    """⌊u·n / 2⁶⁴⌋ for n < 2³², by halves: the product itself would overflow."""
    return np.asarray(((u >> _HALF) * n + (((u & _LOW) * n) >> _HALF)) >> _HALF)
