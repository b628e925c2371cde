"""The similarities of tasks as heat maps, in an SVG or a PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from weft.analysis.plots.heat_map import Scale, cell_side, draw_heat_map, names_margin
from weft.analysis.plots.picture import write_figure
from weft.analysis.similarity import PARTS, PLURAL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weft.analysis.similarity import Matrix, Similarity

# blue below 0, white at 0, red above: no other centre, so that pictures can be compared
SCALE = Scale("RdBu_r", -1.0, 1.0)


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
    rows = panels_of(found, kinds)
    write_figure(lambda: _drawn(found.tasks, rows), file, "Task similarity")


def _drawn(tasks: Sequence[str], rows: Sequence[Sequence[Panel]]) -> Figure:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    columns = max(map(len, rows))
    cells = cell_side(len(tasks)) * len(tasks)
    margin = names_margin(tasks)  # the names beside and below
    size = (columns * (cells + margin) + 0.9, len(rows) * (cells + margin + 0.3) + 0.2)
    figure = Figure(figsize=size, layout="compressed")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for axes, row in zip(grid, rows, strict=True):
        for place in axes[len(row) :]:
            place.set_axis_off()
        for place, panel in zip(axes, row, strict=False):
            draw_heat_map(place, tasks, tasks, panel.matrix, SCALE, panel.title)
    shades = ScalarMappable(Normalize(SCALE.low, SCALE.high), SCALE.palette)
    figure.colorbar(
        shades, ax=grid.ravel().tolist(), label="similarity", ticks=[-1, -0.5, 0, 0.5, 1], aspect=30
    )
    return figure
