"""Plot CovSim as a heat map, with each task's average over the others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weft.analysis.plots.heat_map import Scale, cell_side, draw_heat_map, names_margin
from weft.analysis.plots.picture import write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weft.analysis.covariance import CovarianceSimilarity

SCALE = Scale("Blues", 0.0, 1.0)
AVERAGE = "average over\nthe others"


def write_picture(similarity: CovarianceSimilarity, file: Path, title: str) -> None:
    """Draw the heat map; equal numbers give a byte-identical SVG.

    Args:
        similarity: the similarities.
        file: its suffix, .svg or .png, is the format.
        title: the title, which says what the rows of X are.
    """
    write_figure(lambda: _drawn(similarity, title), file, "Covariance similarity")


def _drawn(similarity: CovarianceSimilarity, title: str) -> Figure:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    count = len(similarity.tasks)
    side, margin = cell_side(count), names_margin([*similarity.tasks, *AVERAGE.splitlines()])
    # one more cell for the averages; the title needs room too
    width = max(side * (count + 1) + margin + 1.6, 0.075 * max(map(len, title.splitlines())) + 0.4)
    figure = Figure(figsize=(width, side * count + margin + 0.7), layout="compressed")
    map_axes, average_axes = figure.subplots(1, 2, width_ratios=[count, 1])
    draw_heat_map(map_axes, similarity.tasks, similarity.tasks, similarity.matrix, SCALE, "")
    averages = similarity.averages[:, None]
    draw_heat_map(average_axes, similarity.tasks, [AVERAGE], averages, SCALE, "", row_names=False)
    shades = ScalarMappable(Normalize(SCALE.low, SCALE.high), SCALE.palette)
    figure.colorbar(shades, ax=[map_axes, average_axes], label="CovSim", ticks=[0, 0.25, 0.5, 0.75, 1])
    figure.suptitle(title, fontsize=10)
    return figure
