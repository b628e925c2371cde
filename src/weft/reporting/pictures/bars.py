"""Horizontal bars, and intervals around estimates (a forest plot).

The name of a row stands above its bar and not beside it, so that long names fit a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.reporting.pictures.frame import Box, color_class, fixed, svg
from weft.reporting.pictures.scale import Scale, fitted, short_number
from weft.utils.markup import Html, tag

ROW = 36
"""The height of a row: its name, and the bar below."""
MIDDLE = 26
"""The place of the bar in its row."""
LONGEST = 52


@dataclass(frozen=True)
class Bar:
    """A bar, or an interval.

    Attributes:
        name: its name.
        value: its length, or the estimate; None: there is none, and `text` says why.
        low: the lower end of the interval.
        high: the upper end.
        text: what is written at the right.
        number: which look it has.
        verdict: of an interval, `better`, `worse` or another word.
    """

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    text: str = ""
    number: int = 0
    verdict: str = ""


def bars(
    rows: Sequence[Bar], *, key: str, title: str, description: str, x_name: str, width: float = 420
) -> Html:
    """Horizontal bars from 0.

    Args:
        rows: the bars.
        key: unique in its page.
        title: what they show.
        description: for readers who do not see them.
        x_name: what their length is.
        width: of the picture.
    """
    box = _box(rows, width)
    x = fitted([0.0, *(row.value for row in rows if row.value is not None)], *box.x, pad=0.0)
    drawn = []
    for place, row in enumerate(rows):
        if row.value is None:
            continue
        start, end = sorted((x.at(0.0), x.at(row.value)))
        drawn.append(
            tag(
                "rect",
                tag("title", f"{row.name}: {row.text}"),
                class_=f"bar {color_class(row.number)}",
                x=fixed(start),
                y=fixed(box.top + place * ROW + MIDDLE - 6),
                width=fixed(max(end - start, 1.0)),
                height=12,
            )
        )
    return svg(key, title, description, box, _ticks(box, x, x_name), *drawn, _names(rows, box))


def forest(
    rows: Sequence[Bar], *, key: str, title: str, description: str, x_name: str, width: float = 420
) -> Html:
    """Intervals, one below the other, with a line at 0.

    Args:
        rows: the intervals.
        key: unique in its page.
        title: what they show.
        description: for readers who do not see them.
        x_name: what the numbers are.
        width: of the picture.
    """
    box = _box(rows, width)
    ends = [end for row in rows for end in (row.value, row.low, row.high) if end is not None]
    x = fitted([0.0, *ends], *box.x)
    zero = fixed(x.at(0.0))
    drawn: list[Html] = []
    for place, row in enumerate(rows):
        middle = box.top + place * ROW + MIDDLE
        # a piece per row: one line would run through the names
        ends_of = {"y1": fixed(middle - 8), "y2": fixed(middle + 8)}
        drawn.append(tag("line", class_="zero", x1=zero, x2=zero, **ends_of))
        inside: list[Html] = [tag("title", f"{row.name}: {row.text}")]
        if row.low is not None and row.high is not None:
            at = fixed(middle)
            inside.append(
                tag("line", class_="whisker", x1=fixed(x.at(row.low)), x2=fixed(x.at(row.high)), y1=at, y2=at)
            )
        if row.value is not None:
            inside.append(_mark(x.at(row.value), middle, row.verdict))
        drawn.append(tag("g", *inside, class_=f"interval {row.verdict}".strip()))
    return svg(key, title, description, box, _ticks(box, x, x_name), *drawn, _names(rows, box))


def _mark(x: float, y: float, verdict: str) -> Html:
    """A triangle upwards, downwards, or a circle: the verdict without color."""
    if verdict in ("better", "worse"):
        tip = -5 if verdict == "better" else 5
        sides = f"{fixed(x - 5)},{fixed(y - tip)} {fixed(x + 5)},{fixed(y - tip)}"
        return tag("polygon", class_="dot", points=f"{sides} {fixed(x)},{fixed(y + tip)}")
    return tag("circle", class_="dot", cx=fixed(x), cy=fixed(y), r=4)


def _box(rows: Sequence[Bar], width: float) -> Box:
    return Box(width, 6 + ROW * len(rows) + 42, 10, 14, 6, 42)


def _names(rows: Sequence[Bar], box: Box) -> Html:
    parts = []
    for place, row in enumerate(rows):
        at = fixed(box.top + place * ROW + 14)
        name = row.name if len(row.name) <= LONGEST else f"{row.name[: LONGEST - 1]}…"
        parts.append(tag("text", name, class_="label halo", x=fixed(box.left), y=at))
        parts.append(tag("text", row.text, class_="label halo", x=fixed(box.x[1]), y=at, text_anchor="end"))
    return tag("g", *parts, aria_hidden="true")


def _ticks(box: Box, x: Scale, x_name: str) -> Html:
    bottom = box.y[0]
    parts: list[Html] = []
    for value in x.ticks(4):
        at = fixed(x.at(value))
        parts.append(tag("line", class_="grid", x1=at, x2=at, y1=fixed(box.top), y2=fixed(bottom)))
        parts.append(
            tag("text", short_number(value), class_="tick", x=at, y=fixed(bottom + 15), text_anchor="middle")
        )
    middle = fixed((box.x[0] + box.x[1]) / 2)
    parts.append(tag("text", x_name, class_="name", x=middle, y=fixed(box.height - 6), text_anchor="middle"))
    return tag("g", *parts, aria_hidden="true")
