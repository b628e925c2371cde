"""Scatter plots, with the points that no other point is better than (Pareto)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.reporting.pictures.frame import TEXT, Box, axes, color_class, coordinates, fixed, path, svg
from weft.reporting.pictures.scale import fitted
from weft.utils.markup import Html, tag

LABELS = 12
"""Up to this many points have their names beside them; with more, only some of the front."""
FRONT_LABELS = 6
LONGEST = 22


@dataclass(frozen=True)
class Point:
    """A point.

    Attributes:
        name: its name.
        x: its place on the horizontal axis.
        y: its place on the vertical axis.
        low: the lower end of the interval of y; None: none is drawn.
        high: the upper end.
        number: which look it has.
        group: what its look stands for, in words.
    """

    name: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    number: int = 0
    group: str = ""


def scatter(
    points: Sequence[Point],
    *,
    key: str,
    title: str,
    description: str,
    x_name: str,
    y_name: str,
    log: bool = False,
    front: bool = True,
    zero: bool = False,
    box: Box | None = None,
) -> Html:
    """A scatter plot.

    Args:
        points: the points.
        key: unique in its page.
        title: what it shows.
        description: for readers who do not see it.
        x_name: what is on the horizontal axis.
        y_name: what is on the vertical axis.
        log: whether the horizontal axis is logarithmic; points at 0 then stand at its left end.
        front: whether to draw the Pareto front: less of x, more of y.
        zero: whether to draw a line at y = 0, and other marks for every second look.
        box: its size.
    """
    box = box or Box(height=300)
    positive = [point.x for point in points if point.x > 0]
    log = log and bool(positive)
    floor = min(positive) / 3 if log and len(positive) < len(points) else None
    at = {id(point): floor if floor and point.x <= 0 else point.x for point in points}
    x = fitted((value for value in at.values() if value is not None), *box.x, log=log, pad=0.06)
    ends = [end for point in points for end in (point.y, point.low, point.high) if end is not None]
    ends += [0.0] if zero else []
    y = fitted(ends, *box.y, pad=0.06)
    best = pareto(points) if front else []
    places = {id(point): (x.at(at[id(point)] or 0.0), y.at(point.y)) for point in points}
    stairs = _stairs([places[id(point)] for point in best], box)
    named = points if len(points) <= LABELS else some_of(best, FRONT_LABELS)
    marks = []
    for point in points:
        a, b = places[id(point)]
        inside: list[Html] = []
        if point.low is not None and point.high is not None:
            inside.append(
                tag(
                    "line",
                    class_="whisker faint",
                    x1=fixed(a),
                    x2=fixed(a),
                    y1=fixed(y.at(point.low)),
                    y2=fixed(y.at(point.high)),
                )
            )
        who = f"{point.name} ({point.group})" if point.group else point.name
        tip = f"{who}: {y_name} {point.y:.2f}, {x_name} {point.x:,.6g}"
        ring = "dot front" if point in best else "dot"
        inside.append(_mark(a, b, point.number if zero else 0, tag("title", tip), ring))
        marks.append(
            tag("g", *inside, class_=f"series {color_class(point.number)}", data_series=point.number)
        )
    level = fixed(y.at(0.0))
    return svg(
        key,
        title,
        description,
        box,
        axes(box, x, y, x_name, y_name),
        tag("line", class_="zero", x1=fixed(box.x[0]), x2=fixed(box.x[1]), y1=level, y2=level)
        if zero
        else None,
        tag("path", class_="stairs", d=stairs) if len(best) > 1 else None,
        *marks,
        *_labels([(point, places[id(point)]) for point in named], list(places.values()), box),
    )


def _mark(x: float, y: float, number: int, title: Html, look: str) -> Html:
    """A circle, a square or a diamond: groups differ without color."""
    if number % 3 == 0:
        return tag("circle", title, class_=look, cx=fixed(x), cy=fixed(y), r=5)
    if number % 3 == 1:
        return tag("rect", title, class_=look, x=fixed(x - 4.5), y=fixed(y - 4.5), width=9, height=9)
    corners = ((x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y))
    return tag("polygon", title, class_=look, points=coordinates(corners))


def mark_key(number: int) -> Html:
    """A sample of a group's marks, for legends."""
    mark = tag("g", _mark(14, 7, number, Html(""), "dot"), class_=color_class(number))
    return tag(
        "svg", mark, class_="key picture", viewBox="0 0 28 14", width=28, height=14, aria_hidden="true"
    )


def pareto(points: Sequence[Point]) -> list[Point]:
    """The points for which no other has less or equal x and more y, or less x and equal y; by x.

    Example:
        >>> [p.name for p in pareto([Point("a", 1, 5), Point("b", 2, 4), Point("c", 3, 7)])]
        ['a', 'c']
    """
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.x, -point.y)):
        if not front or point.y > front[-1].y:
            front.append(point)
    return front


def some_of(points: Sequence[Point], count: int) -> list[Point]:
    """At most `count` of some points: the first, the last, and some between, evenly."""
    if len(points) <= count:
        return list(points)
    return [points[round(place * (len(points) - 1) / (count - 1))] for place in range(count)]


def _stairs(places: Sequence[tuple[float, float]], box: Box) -> str:
    corners: list[tuple[float, float]] = []
    for place in places:
        if corners:
            corners.append((place[0], corners[-1][1]))
        corners.append(place)
    if corners:
        corners.append((box.x[1], corners[-1][1]))
    return path(corners)


Area = tuple[float, float, float, float]
"""Left, top, right and bottom."""
SHIFTS = (4.0, -8.0, 16.0, -20.0, 28.0, -32.0, 40.0, 52.0, 64.0)
"""How far a name may stand below its point, the nearest first."""


def _labels(
    named: Sequence[tuple[Point, tuple[float, float]]], marks: Sequence[tuple[float, float]], box: Box
) -> list[Html]:
    """The names of points, where they touch no mark and no other name; a line leads to one that is far away.

    A name for which there is no such place is left out.
    """
    taken: list[Area] = [(a - 5, b - 5, a + 5, b + 5) for a, b in marks]
    labels: list[Html] = []
    for point, (a, b) in sorted(named, key=lambda item: item[1][1]):
        name = point.name if len(point.name) <= LONGEST else f"{point.name[: LONGEST - 1]}…"
        width = TEXT * 0.98 * len(name)
        for shift, right in ((shift, right) for shift in SHIFTS for right in (True, False)):
            gap = 8 if abs(shift - 4) < 10 else 22
            left = a + gap if right else a - gap - width
            area = (left, b + shift - 10, left + width, b + shift + 2)
            if not _is_free(area, taken, box):
                continue
            taken.append(area)
            side = 1 if right else -1
            if gap > 8:
                ends = {"x1": fixed(a + 5 * side), "x2": fixed(a + (gap - 2) * side)}
                labels.append(tag("line", class_="leader", y1=fixed(b), y2=fixed(b + shift - 4), **ends))
            anchor = None if right else "end"
            at = {"x": fixed(a + gap * side), "y": fixed(b + shift)}
            labels.append(tag("text", name, class_="label halo", text_anchor=anchor, **at))
            break
    return labels


def _is_free(area: Area, taken: Sequence[Area], box: Box) -> bool:
    """Whether an area is inside the picture and touches nothing."""
    left, top, right, bottom = area
    inside = left >= box.x[0] and right <= box.width and top > 14 and bottom < box.y[0]
    return inside and all(right < t[0] or t[2] < left or bottom < t[1] or t[3] < top for t in taken)
