"""A keyed permutation of range(n) that computes any entry by itself, without a table of n entries.

It is a Feistel network over pairs. With a = ⌈√n⌉ and b = ⌈n / a⌉, a number x < a·b is the pair
(left, right) = (x mod a, x div a), and each round adds a random function of one side to the other side:

    left ← left + F₀(right) mod a,    right ← right + F₁(left) mod b,    left ← left + F₂(right) mod a, …

Every round is invertible for any F, so all rounds together permute range(a·b). This range has fewer than a
surplus numbers: a result of n or more is sent through the network again until it is below n (cycle
walking), which only leaves the surplus numbers out of the permutation's cycles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from weft.utils.counter_rng import Bits, Ints, bits

ROUNDS = 12  # six suffice for n > 50; the smallest n need twelve before all pairs are about equally frequent
_HALF = np.uint64(32)


def permute(positions: ArrayLike, n: ArrayLike, key: Bits) -> Ints:
    """Return the image of each position under the permutation of range(n) that `key` selects.

    Args:
        positions: integers in range(n), of any shape.
        n: how many numbers are permuted, at least 1; [] or of a shape that broadcasts with `positions`.
        key: selects the permutation, a draw; [] or of a shape that broadcasts with `positions`.

    Returns:
        Integers in range(n), of the broadcast shape.
    """
    n = np.asarray(n, np.uint64)
    a = np.ceil(np.sqrt(n)).astype(np.uint64)
    b = (n + a - np.uint64(1)) // a
    x = np.asarray(positions, np.uint64)
    x = _network(np.broadcast_to(x, np.broadcast_shapes(x.shape, n.shape, key.shape)), a, b, key)
    while (outside := x >= n).any():
        a_, b_, key_ = (np.broadcast_to(v, x.shape)[outside] for v in (a, b, key))
        x[outside] = _network(x[outside], a_, b_, key_)
    return x.astype(np.int64)


def _network(x: Bits, a: Bits, b: Bits, key: Bits) -> Bits:
    """Apply all rounds once: a permutation of range(a·b)."""
    right, left = (np.asarray(side) for side in np.divmod(x, a))
    for number in range(ROUNDS):
        side, modulus, other = (left, a, right) if number % 2 == 0 else (right, b, left)
        # F = ⌊u·modulus / 2³²⌋ with u the high half of a draw whose counter is (round, other)
        term = bits(key, other | np.uint64(number << 32))
        np.right_shift(term, _HALF, out=term)
        np.multiply(term, modulus, out=term)
        np.right_shift(term, _HALF, out=term)
        np.add(side, term, out=side)
        # side mod modulus for side < 2·modulus: below the modulus, the difference wraps around and is huge
        np.subtract(side, modulus, out=term)
        np.minimum(side, term, out=side)
    return np.asarray(right * a + left)
