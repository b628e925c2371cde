"""Plot the difficulty of tasks as stacked bars, one color per part, with the most difficult task on top."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from weft.analysis.difficulty import PARTS
from weft.analysis.plots.picture import short, write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weft.analysis.difficulty import Difficulty

COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677")
"""A palette that color-blind people can distinguish."""


def write_picture(difficulties: Mapping[str, Difficulty], file: Path, title: str) -> None:
    """Draw the bars; equal numbers give a byte-identical SVG.

    Args:
        difficulties: the difficulties of the tasks, in any order.
        file: its suffix, .svg or .png, is the format.
        title: the title.
    """
    write_figure(lambda: _drawn(difficulties, title), file, "Task difficulty")


def by_difficulty(difficulties: Mapping[str, Difficulty]) -> list[str]:
    """The tasks, the most difficult first; equal ones keep their order."""
    return sorted(difficulties, key=lambda task: -difficulties[task].total)


def _drawn(difficulties: Mapping[str, Difficulty], title: str) -> Figure:
    from matplotlib.figure import Figure

    tasks = by_difficulty(difficulties)
    figure = Figure(figsize=(8.0, 1.6 + 0.32 * len(tasks)), layout="constrained")
    axes = figure.subplots()
    ends = [0.0] * len(tasks)
    # the mutual information may be negative: such a part is drawn left of the axis
    below = [0.0] * len(tasks)
    for (part, name), colour in zip(PARTS.items(), COLOURS, strict=True):
        values = [difficulties[task].parts()[part] for task in tasks]
        starts = [b if v < 0 else e for v, b, e in zip(values, below, ends, strict=True)]
        axes.barh(range(len(tasks)), values, left=starts, color=colour, label=name, height=0.7)
        ends = [e + max(v, 0.0) for e, v in zip(ends, values, strict=True)]
        below = [b + min(v, 0.0) for b, v in zip(below, values, strict=True)]
    for row, (task, end) in enumerate(zip(tasks, ends, strict=True)):
        axes.text(end, row, f" {difficulties[task].total:.2f}", va="center", ha="left", fontsize=8)
    axes.set_yticks(range(len(tasks)), [short(task) for task in tasks], fontsize=9)
    axes.set_xlim(right=1.1 * max(ends, default=1.0))
    axes.invert_yaxis()
    axes.set_xlabel("difficulty (EDM)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, fontsize=10)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure
