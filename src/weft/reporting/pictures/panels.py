"""Several charts in one picture, with one legend, for files that hold a picture alone."""

from __future__ import annotations

from collections.abc import Sequence

from weft.reporting.assets import asset
from weft.reporting.pictures.frame import TEXT, Box, fixed, svg
from weft.utils.markup import Html, tag

HEADING = 20
"""The height of a chart's heading."""
LINE = 20
"""The height of a line of the legend."""
COLUMNS = 3


def panels(
    key: str,
    title: str,
    description: str,
    charts: Sequence[tuple[str, Html]],
    box: Box,
    names: Sequence[str] = (),
    samples: Sequence[Html] = (),
    columns: int = COLUMNS,
) -> str:
    """A whole SVG file with several charts.

    Args:
        key: what ids begin with.
        title: what the picture shows; it is written above the charts.
        description: for readers who do not see it.
        charts: the heading and the picture of each chart; all have the same size.
        box: the size of a chart.
        names: the series of the legend; none: there is no legend.
        samples: the sample of each series, 28 × 14 units.
        columns: the most charts side by side.
    """
    columns = min(columns, max(1, len(charts)))
    width = columns * box.width
    legend, height = _legend(names, samples, width)
    top = 30 + height
    placed = []
    for place, (heading, chart) in enumerate(charts):
        x, y = (place % columns) * box.width, top + (place // columns) * (box.height + HEADING)
        placed.append(tag("text", heading, class_="heading", x=fixed(x + 4), y=fixed(y + 14)))
        placed.append(_at(chart, x, y + HEADING))
    rows = -(-len(charts) // columns)
    whole = Box(width, top + rows * (box.height + HEADING) + 6)
    ground = tag("rect", class_="paper", width="100%", height="100%")
    name = tag("text", title, class_="heading", x=4, y=18)
    return standalone(svg(key, title, description, whole, ground, name, legend, *placed))


def standalone(picture: Html) -> str:
    """A picture as a file of its own, with its style inside."""
    head, _, rest = picture.partition(">")
    return f"{head}>{tag('style', Html(asset('picture.css')))}{rest}\n"


def _at(chart: Html, x: float, y: float) -> Html:
    """A chart at a place inside another picture; it is made by `svg`, and begins with its tag."""
    return Html(f'<svg x="{fixed(x)}" y="{fixed(y)}" {chart.removeprefix("<svg ")}')


def _legend(names: Sequence[str], samples: Sequence[Html], width: float) -> tuple[Html, float]:
    """The legend above the charts, in as many lines as it needs, and its height."""
    x, y, parts = 4.0, 30.0, []
    for name, sample in zip(names, samples, strict=True):
        needed = 48 + TEXT * len(name)
        if x > 4 and x + needed > width:
            x, y = 4.0, y + LINE
        parts += [_at(sample, x, y), tag("text", name, class_="label", x=fixed(x + 33), y=fixed(y + 11))]
        x += needed
    return tag("g", *parts), (y - 30 + LINE + 4 if names else 0.0)
