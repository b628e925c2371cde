"""Line charts: one line per series, with a band around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.reporting.pictures.frame import Box, axes, color_class, dashes, fixed, path, svg
from weft.reporting.pictures.scale import Scale, fitted
from weft.utils.markup import Html, tag


@dataclass(frozen=True)
class Line:
    """A series of a line chart.

    Attributes:
        name: its name.
        x: the places of its points on the horizontal axis, ascending.
        y: the values; one that is not finite interrupts the line.
        low: the lower end of the band at each point; None: there is no band.
        high: the upper end of the band.
        number: which look it has; also which series of the page it is, for the switches of a page.
        shown: whether it is drawn in color; else it is a thin gray line.
        marked: the place of a point that is marked, such as the step that was kept.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    number: int = 0
    shown: bool = True
    marked: float | None = None


def line_chart(
    lines: Sequence[Line],
    *,
    key: str,
    title: str,
    description: str,
    x_name: str = "step",
    y_name: str = "score",
    y_limits: tuple[float, float] | None = None,
    box: Box | None = None,
    hover: bool = True,
) -> Html:
    """A line chart.

    Args:
        lines: the series.
        key: unique in its page.
        title: what it shows.
        description: for readers who do not see it.
        x_name: what is on the horizontal axis.
        y_name: what is on the vertical axis.
        y_limits: the ends of the vertical axis; by default those of the values.
        box: its size.
        hover: whether the page shows the values at the pointer, from the table of the figure: it must have
            one row per place on the horizontal axis and one column per line.
    """
    box = box or Box()
    x, y = scales(lines, box, y_limits)
    # gray lines first: those in color are drawn above them
    ordered = sorted(enumerate(lines, 1), key=lambda item: item[1].shown)
    drawn = [_series(line, column, x, y) for column, line in ordered]
    return svg(
        key,
        title,
        description,
        box,
        axes(box, x, y, x_name, y_name, x_ticks=_ticks(x, lines)),
        *drawn,
        class_="hover" if hover else "",
        **(hover_facts(x) if hover else {}),
    )


def _ticks(x: Scale, lines: Sequence[Line]) -> list[float]:
    """The ticks of the horizontal axis: where all places are whole numbers, such as steps, so are they."""
    ticks = x.ticks(4)
    whole = [tick for tick in ticks if float(tick).is_integer()]
    return whole if whole and all(float(place).is_integer() for line in lines for place in line.x) else ticks


def hover_facts(x: Scale) -> dict[str, object]:
    """What the page's script needs to find the point below the pointer."""
    return {
        "data_low": f"{x.low:g}",
        "data_high": f"{x.high:g}",
        "data_start": fixed(x.start),
        "data_end": fixed(x.end),
    }


def scales(
    lines: Sequence[Line], box: Box, y_limits: tuple[float, float] | None = None
) -> tuple[Scale, Scale]:
    """The scales of a chart, which hold all lines and bands."""
    x = fitted((value for line in lines for value in line.x), *box.x, pad=0.0)
    values = [
        value for line in lines for of in (line.y, line.low, line.high) if of is not None for value in of
    ]
    y = fitted(values, *box.y) if y_limits is None else Scale(*y_limits, *box.y)
    return x, y


def _series(line: Line, column: int, x: Scale, y: Scale) -> Html:
    parts: list[Html] = []
    if line.low is not None and line.high is not None and len(line.x) > 1:
        upper = _finite(line.x, line.high, x, y)
        lower = _finite(line.x, line.low, x, y)
        parts.append(tag("path", class_="band", d=path([*upper, *reversed(lower)], close=True)))
    for piece in pieces(line.x, line.y):
        places = [(x.at(a), y.at(b)) for a, b in piece]
        if len(places) == 1:
            parts.append(tag("circle", class_="dot", cx=fixed(places[0][0]), cy=fixed(places[0][1]), r=3))
        else:
            parts.append(tag("path", class_="line", d=path(places), stroke_dasharray=dashes(line.number)))
    if line.marked is not None:
        height = next((b for a, b in zip(line.x, line.y, strict=True) if a == line.marked), math.nan)
        if math.isfinite(height):
            label = f"{line.name}: step {line.marked:,.0f} was kept"
            parts.append(
                tag(
                    "circle",
                    tag("title", label),
                    class_="kept",
                    cx=fixed(x.at(line.marked)),
                    cy=fixed(y.at(height)),
                    r=4.5,
                )
            )
    shown = "" if line.shown else " off"
    look = f"series {color_class(line.number)}{shown}"
    return tag("g", *parts, class_=look, data_series=line.number, data_column=column)


def _finite(xs: Sequence[float], ys: Sequence[float], x: Scale, y: Scale) -> list[tuple[float, float]]:
    return [(x.at(a), y.at(b)) for a, b in zip(xs, ys, strict=True) if math.isfinite(b)]


def pieces(xs: Sequence[float], ys: Sequence[float]) -> list[list[tuple[float, float]]]:
    """The uninterrupted pieces of a line."""
    found: list[list[tuple[float, float]]] = []
    before = False
    for a, b in zip(xs, ys, strict=True):
        finite = math.isfinite(b)
        if finite and not before:
            found.append([])
        if finite:
            found[-1].append((a, b))
        before = finite
    return found
