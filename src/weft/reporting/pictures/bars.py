"""Horizontal bars, and intervals around estimates (a forest plot)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.reporting.pictures.frame import TEXT, Box, color_class, fixed, svg
from weft.reporting.pictures.scale import Scale, fitted, short_number
from weft.utils.markup import Html, tag

ROW = 22
"""The height of a row."""
LONGEST = 34


@dataclass(frozen=True)
class Bar:
    """A bar, or an interval.

    Attributes:
        name: its name, at the left.
        value: its length, or the estimate.
        low: the lower end of the interval.
        high: the upper end.
        text: what is written at the right.
        number: which look it has.
        class_: a further class, such as a verdict.
    """

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    text: str = ""
    number: int = 0
    class_: str = ""


def bars(
    rows: Sequence[Bar], *, key: str, title: str, description: str, x_name: str, width: float = 520
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
    x = fitted([0.0, *(row.value for row in rows)], *box.x, pad=0.0)
    drawn = []
    for place, row in enumerate(rows):
        at = box.top + place * ROW
        start, end = sorted((x.at(0.0), x.at(row.value)))
        drawn.append(
            tag(
                "rect",
                tag("title", f"{row.name}: {row.text}"),
                class_=f"bar {color_class(row.number)} {row.class_}".strip(),
                x=fixed(start),
                y=fixed(at + 4),
                width=fixed(max(end - start, 1.0)),
                height=ROW - 8,
            )
        )
    return svg(key, title, description, box, _rows(rows, box), _ticks(box, x, x_name), *drawn)


def forest(
    rows: Sequence[Bar], *, key: str, title: str, description: str, x_name: str, width: float = 640
) -> Html:
    """Intervals, one below the other, with a line at 0.

    Args:
        rows: the intervals; `class_` is the verdict: `better`, `worse` or `undecided`.
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
    drawn = [tag("line", class_="zero", x1=zero, x2=zero, y1=fixed(box.top), y2=fixed(box.y[0]))]
    for place, row in enumerate(rows):
        middle = fixed(box.top + (place + 0.5) * ROW)
        inside: list[Html] = [tag("title", f"{row.name}: {row.text}")]
        if row.low is not None and row.high is not None:
            inside.append(
                tag(
                    "line",
                    class_="whisker",
                    x1=fixed(x.at(row.low)),
                    x2=fixed(x.at(row.high)),
                    y1=middle,
                    y2=middle,
                )
            )
        inside.append(_mark(x.at(row.value), float(middle), row.class_))
        drawn.append(tag("g", *inside, class_=f"interval {row.class_}".strip()))
    return svg(key, title, description, box, _rows(rows, box), _ticks(box, x, x_name), *drawn)


def _mark(x: float, y: float, verdict: str) -> Html:
    """A triangle upwards, downwards, or a circle: the verdict without color."""
    if verdict in ("better", "worse"):
        tip = -5 if verdict == "better" else 5
        corners = (
            f"{fixed(x - 5)},{fixed(y - tip)} {fixed(x + 5)},{fixed(y - tip)} {fixed(x)},{fixed(y + tip)}"
        )
        return tag("polygon", class_="dot", points=corners)
    return tag("circle", class_="dot", cx=fixed(x), cy=fixed(y), r=4)


def _box(rows: Sequence[Bar], width: float) -> Box:
    name = max((min(len(row.name), LONGEST) for row in rows), default=0)
    text = max((len(row.text) for row in rows), default=0)
    left, right = 12 + TEXT * 0.95 * name, 12 + TEXT * 0.95 * text
    return Box(max(width, left + right + 200), 10 + ROW * len(rows) + 40, left, right, 10, 40)


def _rows(rows: Sequence[Bar], box: Box) -> Html:
    parts = []
    for place, row in enumerate(rows):
        at = fixed(box.top + (place + 0.5) * ROW + 4)
        name = row.name if len(row.name) <= LONGEST else f"{row.name[: LONGEST - 1]}…"
        parts.append(tag("text", name, class_="label", x=fixed(box.left - 8), y=at, text_anchor="end"))
        parts.append(tag("text", row.text, class_="tick", x=fixed(box.x[1] + 8), y=at))
    return tag("g", *parts, aria_hidden="true")


def _ticks(box: Box, x: Scale, x_name: str) -> Html:
    bottom = box.y[0]
    parts: list[Html] = []
    for value in x.ticks(5):
        at = fixed(x.at(value))
        parts.append(tag("line", class_="grid", x1=at, x2=at, y1=fixed(box.top), y2=fixed(bottom)))
        parts.append(
            tag("text", short_number(value), class_="tick", x=at, y=fixed(bottom + 15), text_anchor="middle")
        )
    middle = fixed((box.x[0] + box.x[1]) / 2)
    parts.append(tag("text", x_name, class_="name", x=middle, y=fixed(box.height - 6), text_anchor="middle"))
    return tag("g", *parts, aria_hidden="true")
