"""Stacked areas: the shares of several series over time."""

from __future__ import annotations

from collections.abc import Sequence

from weft.reporting.pictures.frame import Box, axes, color_class, path, svg
from weft.reporting.pictures.lines import hover_facts
from weft.reporting.pictures.scale import Scale, fitted
from weft.utils.markup import Html, tag

WIDE = Box(width=760, height=300)


def stacked(
    names: Sequence[str],
    x: Sequence[float],
    shares: Sequence[Sequence[float]],
    *,
    key: str,
    title: str,
    description: str,
    x_name: str = "step",
    y_name: str = "share in percent",
    box: Box = WIDE,
) -> Html:
    """Stacked areas, the first series at the bottom.

    Args:
        names: the series.
        x: the places on the horizontal axis, ascending, [N].
        shares: the share of each series at each place, from 0 to 1, [N][T].
        key: unique in its page.
        title: what it shows.
        description: for readers who do not see it.
        x_name: what is on the horizontal axis.
        y_name: what is on the vertical axis.
        box: its size.
    """
    across = fitted(x, *box.x, pad=0.0)
    up = Scale(0.0, 100.0, *box.y)
    below = [0.0] * len(x)
    areas = []
    for number, name in enumerate(names):
        above = [low + 100 * row[number] for low, row in zip(below, shares, strict=True)]
        edge = [(across.at(a), up.at(b)) for a, b in zip(x, above, strict=True)]
        floor = [(across.at(a), up.at(b)) for a, b in zip(x, below, strict=True)]
        outline = path([*edge, *reversed(floor)], close=True)
        area = tag("path", tag("title", name), class_="area", d=outline)
        areas.append(tag("g", area, class_=f"series {color_class(number)}", data_series=number))
        below = above
    return svg(
        key,
        title,
        description,
        box,
        axes(box, across, up, x_name, y_name),
        *areas,
        class_="hover wide",
        **hover_facts(across),
    )
