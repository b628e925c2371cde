"""What all charts have in common: the SVG element with its title, the axes, and the looks of series."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from weft.reporting.pictures.scale import Scale, short_number
from weft.utils.markup import Html, tag

COLORS = 8
"""The number of colors of series; the style sheet defines `.s0` to `.s7`."""
DASHES = (None, "7 3", "2 3", "9 3 2 3")
"""The patterns of lines, so that series differ without color."""
TEXT = 7.0
"""The width of a letter in units of a picture, about."""


@dataclass(frozen=True)
class Box:
    """The place of the plot inside a picture, in its units.

    Attributes:
        width: of the picture.
        height: of the picture.
        left: room for the names at the left.
        right: room at the right.
        top: room at the top.
        bottom: room for ticks and the name of the horizontal axis.
    """

    width: float = 420
    height: float = 260
    left: float = 46
    right: float = 14
    top: float = 24
    bottom: float = 40

    @property
    def x(self) -> tuple[float, float]:
        """The left and the right edge of the plot."""
        return self.left, self.width - self.right

    @property
    def y(self) -> tuple[float, float]:
        """The lower and the upper edge of the plot."""
        return self.height - self.bottom, self.top


def svg(
    key: str, title: str, description: str, box: Box, *parts: object, class_: str = "", **more: object
) -> Html:
    """The element of a picture.

    Args:
        key: unique in its page: the ids of title and description begin with it.
        title: what the picture shows, in a few words.
        description: what a reader who does not see it must know.
        box: its size.
        parts: its content.
        class_: further classes.
        more: further attributes.
    """
    return tag(
        "svg",
        tag("title", title, id=f"{key}-title"),
        tag("desc", description, id=f"{key}-desc"),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
        viewBox=f"0 0 {fixed(box.width)} {fixed(box.height)}",
        width=fixed(box.width),
        height=fixed(box.height),
        class_=f"picture {class_}".strip(),
        **more,
    )


def axes(
    box: Box,
    x: Scale,
    y: Scale,
    x_name: str,
    y_name: str,
    x_text: Callable[[float], str] = short_number,
    y_text: Callable[[float], str] = short_number,
    x_ticks: Sequence[float] | None = None,
) -> Html:
    """Grid lines, ticks and the names of both axes.

    Args:
        box: the place of the plot.
        x: the horizontal scale.
        y: the vertical scale.
        x_name: what is on the horizontal axis.
        y_name: what is on the vertical axis; it is written above it.
        x_text: how a number of the horizontal axis is written.
        y_text: how a number of the vertical axis is written.
        x_ticks: the ticks of the horizontal axis; by default round numbers.
    """
    left, right = box.x
    bottom = box.y[0]
    parts: list[Html] = []
    for value in y.ticks(4):
        at = fixed(y.at(value))
        parts.append(tag("line", class_="grid", x1=fixed(left), x2=fixed(right), y1=at, y2=at))
        parts.append(
            tag(
                "text",
                y_text(value),
                class_="tick",
                x=fixed(left - 6),
                y=fixed(y.at(value) + 4),
                text_anchor="end",
            )
        )
    for value in x.ticks(4) if x_ticks is None else x_ticks:
        at, text = fixed(x.at(value)), x_text(value)
        parts.append(tag("line", class_="axis", x1=at, x2=at, y1=fixed(bottom), y2=fixed(bottom + 4)))
        # a long number at the right end would be cut off
        cut = x.at(value) + TEXT * len(text) / 2 > box.width
        anchor, place = ("end", fixed(box.width - 2)) if cut else ("middle", at)
        parts.append(tag("text", text, class_="tick", x=place, y=fixed(bottom + 16), text_anchor=anchor))
    parts.append(
        tag("line", class_="axis", x1=fixed(left), x2=fixed(right), y1=fixed(bottom), y2=fixed(bottom))
    )
    parts.append(tag("text", y_name, class_="name", x=fixed(4), y=fixed(13)))
    parts.append(
        tag("text", x_name, class_="name", x=fixed(right), y=fixed(box.height - 7), text_anchor="end")
    )
    return tag("g", *parts, aria_hidden="true")


def color_class(number: int) -> str:
    """The class of the color of a series."""
    return f"s{number % COLORS}"


def dashes(number: int) -> str | None:
    """The pattern of the line of a series; 32 series have different pairs of color and pattern."""
    return DASHES[(number // COLORS + number) % len(DASHES)]


def fixed(value: float) -> str:
    """A place in a picture, with one decimal: the size of a page depends on it."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def coordinates(pairs: Iterable[tuple[float, float]]) -> str:
    """The places of a path's points."""
    return " ".join(f"{fixed(x)},{fixed(y)}" for x, y in pairs)


def path(pairs: Sequence[tuple[float, float]], close: bool = False) -> str:
    """A path through points."""
    return ("M" + coordinates(pairs).replace(" ", "L") + ("Z" if close else "")) if pairs else ""


def legend_key(number: int, filled: bool = False) -> Html:
    """A small sample of a series, for legends: a line, or a filled box."""
    inside = (
        tag("rect", class_=f"area {color_class(number)}", x=2, y=2, width=24, height=10)
        if filled
        else tag(
            "line",
            class_=f"line {color_class(number)}",
            x1=1,
            x2=27,
            y1=7,
            y2=7,
            stroke_dasharray=dashes(number),
        )
    )
    return tag("svg", inside, class_="key", viewBox="0 0 28 14", width=28, height=14, aria_hidden="true")
