"""The similarities of tasks as heat maps, in an SVG or a PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from weft.analysis.similarity import PARTS, PLURAL, two_decimals
from weft.errors import WeftError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from weft.analysis.similarity import Matrix, Similarity

SUFFIXES = (".svg", ".png")
PALETTE = "RdBu_r"  # blue below 0, white at 0, red above: no other centre, so that pictures can be compared
MOST_WITH_VALUES = 12
LARGE, SMALL = 0.52, 0.17
"""The side of a cell in inches: with a value inside, and the least that leaves the tasks' names readable."""

LONGEST_LABEL = 24
INCH = 72  # points


class Panel(NamedTuple):
    """One heat map.

    Attributes:
        title: what it shows.
        matrix: [T, T].
    """

    title: str
    matrix: Matrix


def panels_of(found: Similarity, kinds: Sequence[str] | None = None) -> list[list[Panel]]:
    """The heat maps, in rows.

    Args:
        found: the similarities.
        kinds: a row for each of these kinds of site, the mean over its layers; None: one row, the mean over
            all sites.

    Returns:
        In a row the weights and the biases, or that of the two which is updated.
    """
    rows = []
    for kind in (None,) if kinds is None else kinds:
        row = []
        for part in PARTS:
            matrix, count = found.average(part, kind), len(found.matrices(part, kind))
            if matrix is not None:
                what = PLURAL[part] if kind is None else f"{kind}, {PLURAL[part]}"
                unit = "sites" if kind is None else "layers"
                row.append(Panel(f"{what} (mean of {count} {unit})" if count > 1 else what, matrix))
        rows.append(row)
    return rows


def write_picture(found: Similarity, file: Path, kinds: Sequence[str] | None = None) -> None:
    """Draw the heat maps of `panels_of`; equal similarities give an SVG of equal bytes.

    Args:
        found: the similarities, the tasks in the order in which they are to stand.
        file: its suffix, .svg or .png, says what is written.
        kinds: as in `panels_of`.
    """
    check_suffix(file)
    import matplotlib

    rows = panels_of(found, kinds)
    drawn = io.BytesIO()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's own style must not change what is fixed here
        # letters stay letters, which can be searched; ids are hashes with this salt and not random
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "weft"})
        _draw(drawn, found.tasks, rows, file.suffix.lower()[1:])
    file.write_bytes(drawn.getvalue())  # at once: a drawing that fails leaves no half file


def check_suffix(file: Path) -> None:
    """An error if the file's name does not say which of the two formats it is to have."""
    if file.suffix.lower() not in SUFFIXES:
        raise WeftError(f"{file}: the suffix {file.suffix!r} is not known; expected {' or '.join(SUFFIXES)}")


def cell_side(tasks: int) -> float:
    """The side of a cell in inches."""
    return LARGE if tasks <= MOST_WITH_VALUES else max(SMALL, LARGE * MOST_WITH_VALUES / tasks)


def label_size(tasks: int) -> float:
    """The size of the tasks' names in points: never higher than a cell."""
    return min(9.0, round(0.62 * INCH * cell_side(tasks), 1))


def _draw(target: io.BytesIO, tasks: Sequence[str], rows: Sequence[Sequence[Panel]], form: str) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    columns = max(map(len, rows))
    cells = cell_side(len(tasks)) * len(tasks)
    longest = max(len(_short(name)) for name in tasks)
    margin = 0.3 + 0.62 * longest * label_size(len(tasks)) / INCH  # the names beside and below
    size = (columns * (cells + margin) + 0.9, len(rows) * (cells + margin + 0.3) + 0.2)
    figure = Figure(figsize=size, layout="compressed")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for axes, row in zip(grid, rows, strict=True):
        for place in axes[len(row) :]:
            place.set_axis_off()
        for place, panel in zip(axes, row, strict=False):
            _draw_panel(place, tasks, panel)
    scale = ScalarMappable(Normalize(-1.0, 1.0), PALETTE)
    figure.colorbar(
        scale, ax=grid.ravel().tolist(), label="similarity", ticks=[-1, -0.5, 0, 0.5, 1], aspect=30
    )
    told: dict[str, str | None] = {"Title": "Task similarity"}
    if form == "svg":
        told |= {"Date": None, "Creator": "weft"}
    figure.savefig(target, format=form, dpi=150, metadata=told)


def _draw_panel(axes: Axes, tasks: Sequence[str], panel: Panel) -> None:
    """The cells from the upper left on, the names on the left and below, values where there is room."""
    from matplotlib.patches import Rectangle

    count, matrix = len(tasks), panel.matrix
    thin = 0.6 if count <= MOST_WITH_VALUES else 0.2
    shown = np.ma.masked_invalid(matrix)
    axes.pcolormesh(shown, cmap=PALETTE, vmin=-1.0, vmax=1.0, edgecolors="white", linewidth=thin)
    for row, column in np.argwhere(np.isnan(matrix)).tolist():
        axes.add_patch(
            Rectangle(
                (column, row), 1, 1, facecolor="#e6e6e6", edgecolor="#a6a6a6", linewidth=0, hatch="////"
            )
        )
    if count <= MOST_WITH_VALUES:
        for row, column in np.ndindex(count, count):
            value = float(matrix[row, column])
            colour = "white" if abs(value) > 0.65 else "black"
            text = two_decimals(value)
            axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=8, color=colour)
    size, middles = label_size(count), np.arange(count) + 0.5
    names = [_short(name) for name in tasks]
    axes.set_xticks(middles, names, rotation=90, fontsize=size)
    axes.set_yticks(middles, names, fontsize=size)
    axes.set_title(panel.title, fontsize=10)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.tick_params(length=0)
    for edge in axes.spines.values():
        edge.set_visible(False)


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…"
