"""Score against cost: parameters, bytes and time, with the variants that no other one is better than."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from weft.reporting.comparison_data import ComparisonData
from weft.reporting.page import Section, figure
from weft.reporting.pictures.scale import short_number
from weft.reporting.pictures.scatter import Point, pareto, scatter
from weft.reporting.tables import Cell, Table
from weft.utils.markup import Html, join, tag

FLOAT32 = 4
"""The bytes of a parameter."""
SQUEEZED = 0.6
"""A gap of more than this share of an axis leaves too little of it for the points on one side."""


class Cost(NamedTuple):
    """A cost of a variant.

    Attributes:
        name: what it is.
        of: the cost of a variant; None: not known.
        log: whether it is drawn on a logarithmic axis.
        note: what a reader must know.
    """

    name: str
    of: Callable[[ComparisonData, str], float | None]
    log: bool = True
    note: str = ""


def trained_parameters(data: ComparisonData, variant: str) -> float | None:
    """The parameters that train, without heads."""
    value = data.variants[variant].get("trained")
    return None if value is None else float(value)


def serving_bytes(data: ComparisonData, variant: str) -> float | None:
    """The megabytes of a model that serves all tasks, in float32."""
    facts = data.variants[variant]
    if facts.get("total_ratio") is None or not facts.get("encoder"):
        return None
    return float(facts["total_ratio"] * facts["encoder"] * FLOAT32 / 1e6)


def memory(data: ComparisonData, variant: str) -> float | None:
    """The peak memory of training in megabytes."""
    value = data.variants[variant].get("memory")
    return None if value is None else float(value / 1e6)


def seconds(data: ComparisonData, variant: str) -> float | None:
    """The mean seconds of training."""
    value = data.variants[variant].get("seconds")
    return None if value is None else float(value)


COSTS = (
    Cost("trained parameters", trained_parameters, note="Heads are not counted."),
    Cost("megabytes to serve all tasks", serving_bytes, note="In float32, one encoder included."),
    Cost("megabytes of memory in training", memory, False, "The peak of the process, or of its GPU."),
    Cost("seconds of training", seconds, False, "Other programs on the machine change them."),
)
"""The costs, each a picture."""


def cost_section(data: ComparisonData, key: str) -> Section | None:
    """A scatter plot per cost, and another of the cheap variants where an expensive one squeezes them."""
    alone: list[Html] = []
    twice: list[Html] = []  # a cost with two pictures has them side by side
    for place, cost in enumerate(COSTS):
        points = _points(data, cost)
        if len({point.x for point in points}) < 2:
            continue
        near = unsqueezed(points, cost.log)
        drawn = twice if near else alone
        drawn.append(_figure(data, cost, points, f"{key}-{place}"))
        if near:
            drawn.append(
                _figure(data, cost, near, f"{key}-{place}-near", [p for p in points if p not in near])
            )
    if not alone and not twice:
        return None
    text = (
        "Each point is a variant; the bar is the 95 percent interval of its mean. Ringed points form the "
        "Pareto front of the means: no other variant is cheaper and at least as good. Intervals that overlap "
        "do not decide who is on it."
    )
    again = "Where expensive variants take most of an axis, the others are drawn again without them."
    parts = [
        tag("p", text),
        tag("div", *alone, class_="charts pairs") if alone else None,
        join([tag("p", again), tag("div", *twice, class_="charts pairs")]) if twice else None,
    ]
    return Section(key, "Score against cost", join(parts))


def unsqueezed(points: Sequence[Point], log: bool) -> list[Point]:
    """The points left of a gap that takes most of the axis; [] if there is no such gap, or little left of it.

    Args:
        points: the points, with different x.
        log: whether the axis is logarithmic.
    """
    placed = sorted((math.log(max(point.x, 1e-9)) if log else point.x, point.x) for point in points)
    width = placed[-1][0] - placed[0][0]
    gap, last = max((right[0] - left[0], left[1]) for left, right in pairwise(placed))
    near = [point for point in points if point.x <= last]
    return near if gap > SQUEEZED * width and len(near) > 2 and len({point.x for point in near}) > 1 else []


def _points(data: ComparisonData, cost: Cost) -> list[Point]:
    points = []
    for name in data.names:
        value, estimate = cost.of(data, name), data.estimate(name, data.average)
        if value is None or estimate is None:
            continue
        low, high = estimate["interval"] or (math.nan, math.nan)
        known = math.isfinite(low) and math.isfinite(high)
        ends = (100 * low, 100 * high) if known else (None, None)
        points.append(Point(name, value, 100 * estimate["mean"], ends[0], ends[1], data.looks[name]))
    return points


def _figure(
    data: ComparisonData, cost: Cost, points: Sequence[Point], key: str, without: Sequence[Point] = ()
) -> Html:
    """The picture of some variants, and what it is without."""
    front = pareto(points)
    description = f"Pareto front, from the cheapest: {', '.join(f'{p.name} ({p.y:.1f})' for p in front)}."
    left_out = f", without {_listed([point.name for point in without])}" if without else ""
    picture = scatter(
        points,
        key=key,
        title=f"{data.average} against {cost.name}{left_out}",
        description=description,
        x_name=cost.name,
        y_name=f"{data.average}, percent",
        log=cost.log,
    )
    rows = [
        [p.name, Cell(short_number(p.x), p.x), f"{p.y:.2f}", "yes" if p in front else "no"] for p in points
    ]
    caption = f"{data.average} and {cost.name}{left_out}"
    table = Table(caption, ("variant", cost.name, data.average, "on the front"), rows)
    notes = [*filter(None, [description, cost.note])]
    return figure(f"{cost.name}{left_out}", picture, table.html(hide_caption=True), "fill", notes)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"the {len(names)} most expensive"
