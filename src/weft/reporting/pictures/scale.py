"""Scales: from numbers to places in a picture, with ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic map from [low, high] to [start, end].

    Attributes:
        low: the smallest number.
        high: the largest number.
        start: the place of the smallest number, in units of the picture.
        end: the place of the largest.
        log: whether equal ratios have equal lengths; all numbers are then above 0.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The place of a number; numbers outside have places outside."""
        low, high, value = _logs(self.low, self.high, value) if self.log else (self.low, self.high, value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """About `count` round numbers inside; powers of ten and their halves if the scale is logarithmic."""
        if not self.log:
            return nice_numbers(self.low, self.high, count)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = (1,) if len(powers) > count else (1, 2, 5)
        inside = [step * 10.0**power for power in powers for step in steps]
        inside = [value for value in inside if self.low <= value <= self.high]
        # one tick on a short range says nothing about the scale
        return inside if len(inside) > 1 else nice_numbers(self.low, self.high, count)


def _logs(*values: float) -> tuple[float, ...]:
    return tuple(math.log10(max(value, 1e-300)) for value in values)


def fitted(
    values: Iterable[float], start: float, end: float, *, log: bool = False, pad: float = 0.04
) -> Scale:
    """A scale that holds all finite values, with a little room at both ends.

    Args:
        values: the numbers; those that are not finite are left out, and on a logarithmic scale those of 0 or
            less.
        start: the place of the smallest number.
        end: the place of the largest.
        log: whether the scale is logarithmic.
        pad: the room at each end, as a share of the range.
    """
    inside = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    low, high = (min(inside), max(inside)) if inside else (1.0, 2.0)
    if log:
        ratio = (high / low) ** pad if high > low else 2.0
        return Scale(low / ratio, high * ratio, start, end, True)
    room = pad * (high - low) if high > low else max(abs(high) * 0.1, 0.5)
    return Scale(low - room, high + room, start, end)


def nice_numbers(low: float, high: float, count: int = 5) -> list[float]:
    """Multiples of 1, 2, 2.5 or 5 times a power of ten inside [low, high], about `count` of them."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
        return [low]
    rough = (high - low) / max(1, count)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def short_number(value: float) -> str:
    """A number for an axis: `1,500`, `12k`, `3.4M`, `0.25`.

    Example:
        >>> short_number(1_500), short_number(2_300_000), short_number(0.25)
        ('1,500', '2.3M', '0.25')
    """
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    for limit, divisor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if size >= limit:
            return _minus(f"{value / divisor:.3g}") + unit
    if size >= 1000:
        return _minus(f"{value:,.0f}")
    return _minus(f"{value:.4g}" if size >= 1 else f"{value:.3g}")


def _minus(text: str) -> str:
    return text.replace("-", "−") if "e" not in text else text
