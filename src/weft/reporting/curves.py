"""Curves of evaluations: of one run, or the median and the range over the seeds of a variant."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from weft.reporting.tables import NONE, Table

Points = Mapping[int, float]
"""The value at each step."""


@dataclass(frozen=True)
class Curve:
    """The values of several seeds at each step.

    Attributes:
        steps: the steps, ascending.
        middle: the median over seeds, or their mean.
        low: the lowest value.
        high: the highest value.
        seeds: how many seeds have a value at each step.
    """

    steps: tuple[int, ...]
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    seeds: tuple[int, ...]

    @property
    def whole(self) -> bool:
        """Whether all steps have values of equally many seeds."""
        return len(set(self.seeds)) <= 1


def curve_of(seeds: Sequence[Points], middle: Callable[[Sequence[float]], float] = median) -> Curve:
    """The median and the range over seeds, at every step that any of them has.

    Args:
        seeds: the finite values of each seed by step.
        middle: what the line shows of the seeds' values: by default their median.

    Example:
        >>> curve_of([{0: 1.0, 10: 2.0}, {0: 3.0, 10: 6.0}, {0: 2.0, 10: 4.0}]).middle
        (2.0, 4.0)
    """
    steps = sorted({step for points in seeds for step, value in points.items() if math.isfinite(value)})
    values = [[p[step] for p in seeds if math.isfinite(p.get(step, math.nan))] for step in steps]
    return Curve(
        tuple(steps),
        tuple(middle(row) for row in values),
        tuple(min(row) for row in values),
        tuple(max(row) for row in values),
        tuple(len(row) for row in values),
    )


def first_reaching(points: Points, goal: float) -> int | None:
    """The first step at which a value is at or above a goal; None if there is none."""
    return next((step for step, value in sorted(points.items()) if value >= goal), None)


def table_of(caption: str, curves: Mapping[str, Curve], digits: int = 1) -> Table:
    """The numbers of some curves: one row per step, one column per curve.

    Args:
        caption: what they are.
        curves: the curves by name.
        digits: the number of decimals.
    """
    steps = sorted({step for curve in curves.values() for step in curve.steps})
    places = {name: {step: i for i, step in enumerate(curve.steps)} for name, curve in curves.items()}
    rows = []
    for step in steps:
        row: list[object] = [f"{step:,}"]
        for name, curve in curves.items():
            place = places[name].get(step)
            row.append(NONE if place is None else _shown(curve, place, digits))
        rows.append(row)
    return Table(caption, ("step", *curves), rows)


def _shown(curve: Curve, place: int, digits: int) -> str:
    middle = f"{curve.middle[place]:.{digits}f}"
    if curve.seeds[place] < 2:
        return middle
    return f"{middle} ({curve.low[place]:.{digits}f} to {curve.high[place]:.{digits}f})"
