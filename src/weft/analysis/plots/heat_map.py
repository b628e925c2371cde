"""Drawing one heat map of tasks by tasks, with readable sizes, names and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weft.analysis.plots.picture import INCH, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

MOST_WITH_VALUES = 12
LARGE, SMALL = 0.52, 0.17
"""The side of a cell in inches: with a value inside, and the smallest with readable task names."""


@dataclass(frozen=True)
class Scale:
    """The color scale of numbers.

    Attributes:
        palette: the name of a matplotlib color map.
        low: the number at its start.
        high: the number at its end.
        dark: numbers farther from 0 than this are written in white, on a dark cell.
    """

    palette: str
    low: float
    high: float
    dark: float = 0.65


def draw_heat_map(
    axes: Axes,
    rows: Sequence[str],
    columns: Sequence[str],
    matrix: NDArray[np.float64],
    scale: Scale,
    title: str,
    row_names: bool = True,
) -> None:
    """Draw the cells from the upper left, the names on the left and below, and values if there is room.

    Args:
        axes: the axes to draw on.
        rows: the names of the T tasks.
        columns: the C names below.
        matrix: [T, C]; undefined values (NaN) are hatched.
        scale: the color scale.
        title: the title.
        row_names: whether to write the names of the tasks on the left.
    """
    from matplotlib.patches import Rectangle

    count = len(rows)
    thin = 0.6 if count <= MOST_WITH_VALUES else 0.2
    shown = np.ma.masked_invalid(matrix)
    axes.pcolormesh(
        shown, cmap=scale.palette, vmin=scale.low, vmax=scale.high, edgecolors="white", linewidth=thin
    )
    for row, column in np.argwhere(np.isnan(matrix)).tolist():
        axes.add_patch(
            Rectangle(
                (column, row), 1, 1, facecolor="#e6e6e6", edgecolor="#a6a6a6", linewidth=0, hatch="////"
            )
        )
    if count <= MOST_WITH_VALUES:
        for row, column in np.ndindex(*matrix.shape):
            value = float(matrix[row, column])
            colour = "white" if abs(value) > scale.dark else "black"
            text = two_decimals(value)
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=8, color=colour)
    size = label_size(count)
    axes.set_xticks(np.arange(len(columns)) + 0.5, [short(n) for n in columns], rotation=90, fontsize=size)
    axes.set_yticks(np.arange(count) + 0.5, [short(n) if row_names else "" for n in rows], fontsize=size)
    axes.set_title(title, fontsize=10)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.tick_params(length=0)
    for edge in axes.spines.values():
        edge.set_visible(False)


def cell_side(tasks: int) -> float:
    """The side of a cell in inches."""
    return LARGE if tasks <= MOST_WITH_VALUES else max(SMALL, LARGE * MOST_WITH_VALUES / tasks)


def label_size(tasks: int) -> float:
    """The font size of the tasks' names in points: never higher than a cell."""
    return min(9.0, round(0.62 * INCH * cell_side(tasks), 1))


def names_margin(tasks: Sequence[str]) -> float:
    """The room in inches that the tasks' names take beside or below a map."""
    longest = max(len(short(name)) for name in tasks)
    return 0.3 + 0.62 * longest * label_size(len(tasks)) / INCH


def two_decimals(value: float, undefined: str = "–") -> str:
    """A similarity with two decimals."""
    if np.isnan(value):
        return undefined
    text = f"{value:.2f}"
    return "0.00" if text == "-0.00" else text
