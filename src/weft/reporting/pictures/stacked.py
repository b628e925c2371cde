"""Stacked areas: the shares of several series over time."""

from __future__ import annotations

from collections.abc import Sequence

from weft.reporting.pictures.frame import TEXT, Box, axes, color_class, fixed, path, svg
from weft.reporting.pictures.lines import hover_facts
from weft.reporting.pictures.scale import Scale, fitted
from weft.utils.markup import Html, tag

WIDE = Box(width=560, height=270)
"""A picture that is enlarged on a wide screen, and whose words can still be read on a phone."""
LINE = 16
"""The height of a line of text."""


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
    areas: list[Html] = []
    labels: list[Html | None] = []
    for number, name in enumerate(names):
        above = [low + 100 * row[number] for low, row in zip(below, shares, strict=True)]
        edge = [(across.at(a), up.at(b)) for a, b in zip(x, above, strict=True)]
        floor = [(across.at(a), up.at(b)) for a, b in zip(x, below, strict=True)]
        outline = path([*edge, *reversed(floor)], close=True)
        area = tag("path", tag("title", name), class_="area", d=outline)
        areas.append(tag("g", area, class_=f"series {color_class(number)}", data_series=number))
        labels.append(_label(name, edge, floor, box))
        below = above
    return svg(
        key,
        title,
        description,
        box,
        axes(box, across, up, x_name, y_name),
        *areas,
        tag("g", *labels, aria_hidden="true"),
        class_="hover wide",
        **hover_facts(across),
    )


def _label(
    name: str, edge: Sequence[tuple[float, float]], floor: Sequence[tuple[float, float]], box: Box
) -> Html | None:
    """The name of an area, where it is highest; None if it does not fit there."""
    heights = [low[1] - high[1] for high, low in zip(edge, floor, strict=True)]
    highest = max(range(len(heights)), key=lambda i: heights[i])
    tall = [i for i, height in enumerate(heights) if height >= max(LINE, 0.6 * heights[highest])]
    if not tall:
        return None
    # the middle of the stretch around the highest place
    first = last = highest
    while first - 1 in tall:
        first -= 1
    while last + 1 in tall:
        last += 1
    left, right = edge[first][0], edge[last][0]
    if right - left < TEXT * len(name):
        return None
    middle = (left + right) / 2
    near = min(range(first, last + 1), key=lambda i: abs(edge[i][0] - middle))
    y = (edge[near][1] + floor[near][1]) / 2 + 4
    return tag("text", name, class_="label halo", x=fixed(middle), y=fixed(y), text_anchor="middle")
