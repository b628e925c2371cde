"""Random bits as a pure function of (seed, purpose, counter). No state is kept between draws.

Draw c is the c-th output of SplitMix64, started from a key that is derived from (seed, purpose):

    bits(key, c) = mix(key + c·γ) mod 2⁶⁴,    key = the first 8 bytes of sha256(seed, purpose)

The arithmetic uses integers only, so every machine produces the same draws.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ over the golden ratio; odd, so no two counters collide
_MIX = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST_SHIFT = np.uint64(31)


def draw_key(seed: int, *purpose: str | int) -> Bits:
    """Return the key of all draws for one purpose, a scalar array [].

    Args:
        seed: any integer.
        purpose: what is drawn, as words and numbers; different words give unrelated draws.
    """
    text = "\x00".join(str(part) for part in (seed, *purpose))
    return np.array(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little"), np.uint64)


def bits(key: Bits, counter: Bits) -> Bits:
    """Return the draws with these counters: 64 uniform bits per entry.

    Args:
        key: from `draw_key` or from a previous draw, [] or of a shape that broadcasts with `counter`.
        counter: of any shape.
    """
    # functions, not operators: an operator warns when a scalar overflows, and overflow is intended here
    z = np.asarray(np.add(np.multiply(counter, _GAMMA), key))
    shifted = np.empty_like(z)
    for shift, factor in _MIX:
        np.right_shift(z, shift, out=shifted)
        np.bitwise_xor(z, shifted, out=z)
        np.multiply(z, factor, out=z)
    np.right_shift(z, _LAST_SHIFT, out=shifted)
    return np.bitwise_xor(z, shifted, out=z)


def half_bits(key: Bits, first: int, stop: int) -> NDArray[np.uint32]:
    """Return the draws first, …, stop − 1 of 32 bits each, [stop − first].

    Draw c is the low (c even) or the high (c odd) half of bits(key, c // 2). A mixed plan counts
    tens of millions of draws to find a late step, and this halves the work.
    """
    words = bits(key, np.arange(first // 2, (stop + 1) // 2, dtype=np.uint64))
    halves = words.astype("<u8", copy=False).view("<u4")  # the low half first, on every machine
    return halves[first % 2 :][: stop - first]
