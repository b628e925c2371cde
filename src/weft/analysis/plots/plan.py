"""Plot the expected share of each task over the steps as stacked areas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.analysis.plots.picture import short, write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weft.sampling.plan.plan import Share

A_COLUMN = 32
"""The number of names per column of the legend."""


def write_picture(shares: Sequence[Share], names: Sequence[str], file: Path, title: str, unit: str) -> None:
    """Draw the areas; equal shares give a byte-identical SVG.

    Args:
        shares: the shares over time.
        names: the tasks, [T].
        file: its suffix, .svg or .png, is the format.
        title: the title.
        unit: what the shares are of: draws, or candidates.
    """
    write_figure(lambda: _drawn(shares, names, title, unit), file, "Expected share of each task")


def _drawn(shares: Sequence[Share], names: Sequence[str], title: str, unit: str) -> Figure:
    import matplotlib
    import numpy as np
    from matplotlib.figure import Figure

    columns = -(-len(names) // A_COLUMN)
    height = max(3.6, 0.9 + 0.17 * min(len(names), A_COLUMN))
    figure = Figure(figsize=(7.0 + 1.7 * columns, height), layout="constrained")
    axes = figure.subplots()
    # a share is constant until the next change: each segment of steps is two points
    steps = np.array([edge for segment in shares for edge in (segment.first, segment.stop)])
    values = np.repeat(np.stack([segment.share for segment in shares]), 2, axis=0).T  # [T, 2·S]
    palette = matplotlib.colormaps["tab10" if len(names) <= 10 else "tab20"]
    colours = [palette(number % palette.N) for number in range(len(names))]
    axes.stackplot(
        steps,
        100 * values,
        labels=[short(name) for name in names],
        colors=colours,
        edgecolor="white",
        linewidth=0.4,
    )
    axes.set_xlim(0, steps[-1])
    axes.set_ylim(0, 100)
    axes.set_xlabel("step", fontsize=9)
    axes.set_ylabel(f"expected share of the {unit}, percent", fontsize=9)
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    # top to bottom, in the order of the areas
    handles, labels = axes.get_legend_handles_labels()
    legend = [
        f"{label}  {100 * float(course[0]):.1f} → {100 * float(course[-1]):.1f}%"
        for label, course in zip(labels, values, strict=True)
    ]
    figure.legend(
        handles[::-1], legend[::-1], loc="outside right upper", ncols=columns, fontsize=7, frameon=False
    )
    return figure
