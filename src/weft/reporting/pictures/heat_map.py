"""Heat maps: numbers in cells, shaded by their size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from weft.reporting.pictures.frame import TEXT, Box, fixed, svg
from weft.utils.markup import Html, join, tag

LONGEST = 18
ROW = 26
"""The height of a row."""
GAP = 6
"""The room between two blocks."""
STRONGEST = 0.62
"""The opacity of the strongest shade; the number in the cell stays readable on it, in both themes."""


def two_decimals(value: float) -> str:
    """A number with two decimals and a real minus sign; no zero has one."""
    text = f"{value:.2f}"
    return "0.00" if text == "-0.00" else text.replace("-", "−")


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    *,
    key: str,
    title: str,
    description: str,
    low: float = -1.0,
    high: float = 1.0,
    text: Callable[[float], str] = two_decimals,
    x_name: str = "",
    y_name: str = "",
    blocks: Sequence[int] = (),
) -> Html:
    """A heat map. Numbers above 0 have one color, those below 0 another; the larger, the stronger.

    Args:
        rows: the names of the rows.
        columns: the names of the columns.
        values: the numbers, one list per row; one that is not finite leaves its cell empty. Where rows and
            columns are the same, there is no cell for a name with itself, unless it has a number.
        key: unique in its page.
        title: what it shows.
        description: for readers who do not see it.
        low: the number with the strongest color below 0.
        high: the number with the strongest color above 0.
        text: how a number is written.
        x_name: what the columns are, at the top.
        y_name: what the rows are, at the top left.
        blocks: how many rows and columns each block has, if some belong together; by default there is one.
    """
    longest = max((len(text(value)) for row in values for value in row if math.isfinite(value)), default=4)
    side = max(34.0, 8 + TEXT * longest)
    left = 14 + TEXT * 0.95 * max((min(len(name), LONGEST) for name in rows), default=0)
    top = 22 + TEXT * 0.8 * max((min(len(name), LONGEST) for name in columns), default=0)
    # slanted names of the last columns need room at the right
    room = 6 + TEXT * 0.66 * max((min(len(name), LONGEST) for name in columns), default=0)
    across = [left + side * place + gap for place, gap in enumerate(_gaps(len(columns), blocks))]
    down = [top + ROW * place + gap for place, gap in enumerate(_gaps(len(rows), blocks))]
    right, bottom = max(across, default=left) + side, max(down, default=top) + ROW
    box = Box(right + room, bottom + 8, left, room, top, 8)
    parts: list[Html] = []
    for place, name in enumerate(columns):
        at = f"translate({fixed(across[place] + side / 2)} {fixed(top - 6)}) rotate(-50)"
        parts.append(tag("text", _short(name), class_="label", transform=at))
    for place, name in enumerate(rows):
        middle = fixed(down[place] + ROW / 2 + 4)
        parts.append(
            tag("text", _short(name), class_="label", x=fixed(left - 6), y=middle, text_anchor="end")
        )
    if y_name or x_name:
        parts.append(tag("text", " / ".join(filter(None, (y_name, x_name))), class_="name", x=4, y=13))
    itself = list(rows) == list(columns)
    cells = [
        tag(
            "g",
            *(
                _cell(value, f"{row}, {column}", text, across[j], side, low, high)
                for j, (column, value) in enumerate(zip(columns, of_row, strict=True))
                if math.isfinite(value) or not (itself and i == j)
            ),
            transform=f"translate(0 {fixed(down[i])})",
        )
        for i, (row, of_row) in enumerate(zip(rows, values, strict=True))
    ]
    return svg(key, title, description, box, tag("g", *parts, aria_hidden="true"), *cells)


def _gaps(count: int, blocks: Sequence[int]) -> list[float]:
    """How far each row or column is moved, so that there is room between blocks."""
    moved = [float(GAP * number) for number, size in enumerate(blocks) for _ in range(size)]
    return (moved + [moved[-1] if moved else 0.0] * count)[:count]


def _cell(
    value: float,
    name: str,
    text: Callable[[float], str],
    x: float,
    side: float,
    low: float,
    high: float,
) -> Html:
    known = math.isfinite(value)
    limit = high if value >= 0 else -low
    share = min(1.0, abs(value) / limit) if known and limit > 0 else 0.0
    box = tag(
        "rect",
        tag("title", f"{name}: {text(value) if known else 'not known'}"),
        class_=f"cell {'above' if value >= 0 else 'below'}" if known else "cell unknown",
        x=fixed(x),
        width=fixed(side),
        height=ROW,
        fill_opacity=fixed2(STRONGEST * share),
    )
    label = text(value) if known else "–"
    return join([box, tag("text", label, class_="value", x=fixed(x + side / 2), y=17)])


def fixed2(value: float) -> str:
    """An opacity with two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
