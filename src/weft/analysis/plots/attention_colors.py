"""The colors of attention shares: white at the even share, blue above it, orange below it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

LESS, EVEN, MORE = (230, 97, 1), (255, 255, 255), (8, 48, 107)
"""Red, green and blue of the two ends and of the middle."""

LEVELS = 24
"""Color steps on each side of the even share: fine enough that no border between two steps is visible."""

LOWEST = 4.0
"""The even share divided by this, and everything below it, has the darkest orange."""

LEAST_TOP = 8.0
"""The darkest blue is at least this many times the even share, so that noise around it stays white."""


@dataclass(frozen=True)
class AttentionColors:
    """The color of a share by its ratio to the even share, on a logarithmic scale.

    An even attention, such as that of an untrained model, is white everywhere. A share that differs from the
    even one by 5 % is white too, to the eye: the middle of the scale is not a border between two colors.

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
        return cls(even, max(largest, min(1.0, LEAST_TOP * even)))

    @property
    def floor(self) -> float:
        """The share that has the darkest orange, as all smaller ones."""
        return self.even / LOWEST

    def level(self, share: float) -> int:
        """The step of a share, from −LEVELS (a fourth of the even share or less) to LEVELS (`top`)."""
        if share <= self.floor:
            return -LEVELS
        if share <= self.even:
            return round(LEVELS * math.log(share / self.even) / math.log(LOWEST))
        if self.top <= self.even:
            return 0
        return min(LEVELS, round(LEVELS * math.log(share / self.even) / math.log(self.top / self.even)))

    def describe(self) -> str:
        """The scale in words."""
        return (
            f"white: the even share, {percent(self.even)}; blue: more, up to {percent(self.top)}; "
            f"orange: less, down to {percent(self.floor)}"
        )


@cache
def color(level: int) -> str:
    """The color of a step, `#rrggbb`."""
    end, part = (MORE, level / LEVELS) if level > 0 else (LESS, -level / LEVELS)
    return "#" + "".join(f"{round(a + part * (b - a)):02x}" for a, b in zip(EVEN, end, strict=True))


@cache
def ink(level: int) -> str:
    """Black or white, whichever is easier to read on the color of a step."""
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
