"""Score against cost: parameters, bytes and time, with the variants that no other one is better than."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from weft.reporting.comparison_data import ComparisonData
from weft.reporting.page import Section, figure
from weft.reporting.pictures.scale import short_number
from weft.reporting.pictures.scatter import Point, pareto, scatter
from weft.reporting.tables import Cell, Table
from weft.utils.markup import Html, join, tag

FLOAT32 = 4
"""The bytes of a parameter."""


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
    """One scatter plot per cost."""
    figures = [_figure(data, cost, f"{key}-{place}") for place, cost in enumerate(COSTS)]
    drawn = [picture for picture in figures if picture is not None]
    if not drawn:
        return None
    text = (
        "Each point is a variant; the bar is the 95 percent interval of its mean. Ringed points form the "
        "Pareto front of the means: no other variant is cheaper and at least as good. Intervals that overlap "
        "do not decide who is on it."
    )
    return Section(
        key, "Score against cost", join([tag("p", text), tag("div", *drawn, class_="charts pairs")])
    )


def _figure(data: ComparisonData, cost: Cost, key: str) -> Html | None:
    points = []
    for name in data.names:
        value, estimate = cost.of(data, name), data.estimate(name, data.average)
        if value is None or estimate is None:
            continue
        low, high = estimate["interval"] or (math.nan, math.nan)
        known = math.isfinite(low) and math.isfinite(high)
        ends = (100 * low, 100 * high) if known else (None, None)
        points.append(Point(name, value, 100 * estimate["mean"], ends[0], ends[1], data.looks[name]))
    if len({point.x for point in points}) < 2:
        return None
    front = pareto(points)
    description = f"Pareto front, from the cheapest: {', '.join(f'{p.name} ({p.y:.1f})' for p in front)}."
    picture = scatter(
        points,
        key=key,
        title=f"{data.average} against {cost.name}",
        description=description,
        x_name=cost.name,
        y_name=f"{data.average}, percent",
        log=cost.log,
    )
    rows = [
        [p.name, Cell(short_number(p.x), p.x), f"{p.y:.2f}", "yes" if p in front else "no"] for p in points
    ]
    table = Table(
        f"{data.average} and {cost.name}", ("variant", cost.name, data.average, "on the front"), rows
    )
    return figure(
        cost.name, picture, table.html(hide_caption=True), "fill", [*filter(None, [description, cost.note])]
    )
