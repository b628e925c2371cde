"""The colors of attention shares: white at the even share, blue above it, orange below it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

ANCHORS = {
    -1.0: (253, 212, 170),
    0.0: (255, 255, 255),
    0.5: (66, 146, 198),
    1.0: (8, 48, 107),
}
"""Red, green and blue of some levels; colors between them are linear.

Orange stays pale: most tokens get less than the even share, and those that get more should catch the eye.
"""

SPAN = 8.0
"""The scale goes from the even share divided by this to at least the even share times this.

It is wide, so that noise around the even share stays white.
"""


@dataclass(frozen=True)
class AttentionColors:
    """The color of a share by its ratio to the even share, on a logarithmic scale.

    The level of a share p of L tokens is continuous, and 0 (white) at the even share 1/L:

        log(p·L) / log(top·L)   from 0 to 1 above the even share (blue),
        log(p·L) / log 8        from −1 to 0 below it (orange); less than an eighth of it is −1 too.

    So an even attention, such as that of an untrained model, is white everywhere, and a share that differs
    from the even one by a few percent is white to the eye: no border between two colors lies there.

    Attributes:
        even: the share of each of L tokens if attention is even, 1/L.
        top: the share with the darkest blue.
    """

    even: float
    top: float

    @classmethod
    def of(cls, largest: float, tokens: int) -> AttentionColors:
        """The colors of a picture with so many tokens, whose largest share is `largest`."""
        even = 1 / tokens
        # a softmax may exceed 1 by a rounding error, which must not be a color of its own
        return cls(even, min(1.0, max(largest, SPAN * even)))

    @property
    def floor(self) -> float:
        """The share that has the darkest orange, as all smaller ones."""
        return self.even / SPAN

    def levels(self, shares: ArrayLike) -> NDArray[np.float64]:
        """The level of each share, from −1 (an eighth of the even share or less) to 1 (`top`)."""
        ratio = np.log(np.maximum(np.asarray(shares, np.float64) / self.even, 1 / SPAN))
        above = math.log(self.top / self.even)
        more = np.minimum(ratio / above, 1.0) if above > 0 else np.zeros_like(ratio)
        return np.where(ratio > 0, more, np.maximum(ratio / math.log(SPAN), -1.0))

    def describe(self) -> str:
        """The scale in words."""
        return (
            f"white: the even share, {percent(self.even)}; blue: more, up to {percent(self.top)}; "
            f"orange: less, down to {percent(self.floor)} and below"
        )


def channels(levels: ArrayLike) -> NDArray[np.uint8]:
    """Red, green and blue of each level, [..., 3]."""
    level, anchors = np.asarray(levels, np.float64), list(ANCHORS)
    parts = [np.interp(level, anchors, values) for values in zip(*ANCHORS.values(), strict=True)]
    return np.rint(np.stack(parts, axis=-1)).astype(np.uint8)


def color(level: float) -> str:
    """The color of a level, `#rrggbb`."""
    return "#" + "".join(f"{channel:02x}" for channel in channels(level).tolist())


def ink(level: float) -> str:
    """Black or white, whichever is easier to read on the color of a level."""
    light = luminance(color(level))
    return "#000000" if (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) else "#ffffff"


def luminance(hex_color: str) -> float:
    """The relative luminance of `#rrggbb`, as the web's contrast rules define it."""
    parts = [int(hex_color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.1f}%"
