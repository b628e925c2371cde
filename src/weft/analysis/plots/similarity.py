"""Plot the similarities of tasks as heat maps, as SVG or PNG."""

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

# blue below 0, white at 0, red above: always the same scale, so that pictures can be compared
SCALE = Scale("RdBu_r", -1.0, 1.0)


class Panel(NamedTuple):
    """One heat map.

    Attributes:
        title: what it shows.
        matrix: [T, T].
    """

    title: str
    matrix: Matrix


def panels_of(similarity: Similarity, kinds: Sequence[str] | None = None) -> list[list[Panel]]:
    """Return the heat maps, in rows.

    Args:
        similarity: the similarities.
        kinds: one row per kind of site, the mean over its layers; None: one row, the mean over all sites.

    Returns:
        Each row has the weights and the biases, or the one of them that is updated.
    """
    rows = []
    for kind in (None,) if kinds is None else kinds:
        row = []
        for part in PARTS:
            matrix, count = similarity.average(part, kind), len(similarity.matrices(part, kind))
            if matrix is not None:
                name = PLURAL[part] if kind is None else f"{kind}, {PLURAL[part]}"
                unit = "sites" if kind is None else "layers"
                row.append(Panel(f"{name} (mean of {count} {unit})" if count > 1 else name, matrix))
        rows.append(row)
    return rows


def write_picture(similarity: Similarity, file: Path, kinds: Sequence[str] | None = None) -> None:
    """Draw the heat maps of `panels_of`; equal similarities give a byte-identical SVG.

    Args:
        similarity: the similarities, with the tasks in the order of the plot.
        file: its suffix, .svg or .png, is the format.
        kinds: as in `panels_of`.
    """
    rows = panels_of(similarity, kinds)
    write_figure(lambda: _drawn(similarity.tasks, rows), file, "Task similarity")


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
        for cell in axes[len(row) :]:
            cell.set_axis_off()
        for cell, panel in zip(axes, row, strict=False):
            draw_heat_map(cell, tasks, tasks, panel.matrix, SCALE, panel.title)
    shades = ScalarMappable(Normalize(SCALE.low, SCALE.high), SCALE.palette)
    figure.colorbar(
        shades, ax=grid.ravel().tolist(), label="similarity", ticks=[-1, -0.5, 0, 0.5, 1], aspect=30
    )
    return figure
