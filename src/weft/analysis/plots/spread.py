"""Plot a run's metrics as bars, or their differences from a reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from weft.analysis.plots.picture import short, write_figure

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weft.analysis.spread import Comparison, Spread

ABOVE, BELOW, PLAIN = "#4477aa", "#ee6677", "#4477aa"
LINE = 90
"""The width of the text below the bars, in characters."""


def write_metrics(spread: Spread, file: Path, title: str) -> None:
    """Draw every metric in percent, with their mean and one σ to each side of it, both named below."""
    bars = [(f"{short(v.task)}, {v.metric}", 100 * v.value) for v in spread.values]

    def draw() -> Figure:
        figure, axes = _figure(len(bars), title, "score in percent")
        _bars(axes, bars, [PLAIN] * len(bars), "{:.1f}")
        if spread.mean == spread.mean:
            axes.axvline(spread.mean, color="black", linewidth=0.8, label=f"mean, {spread.mean:.1f}%")
        if spread.sigma == spread.sigma:
            # behind the bars, so that they stay visible
            low, high = spread.mean - spread.sigma, spread.mean + spread.sigma
            label = f"mean ± σ, {low:.1f}% to {high:.1f}%"
            axes.axvspan(low, high, color="#dddddd", zorder=0, linewidth=0, label=label)
        _legend(figure, *axes.get_legend_handles_labels())
        return figure

    write_figure(draw, file, "Task spread")


def write_differences(compared: Sequence[Comparison], file: Path, title: str) -> None:
    """Draw the differences of the tasks from the reference in percentage points.

    Errors, which are not percentages, and tasks that were not compared are named below the plot.
    """
    shown = [task for task in compared if task.difference is not None and not task.is_error]
    bars = [(f"{short(task.task)}, {task.metric}", 100 * (task.difference or 0.0)) for task in shown]
    colours = [ABOVE if task.at_or_above else BELOW for task in shown]
    hidden = [f"{short(task.task)}, {task.metric}" for task in compared if task not in shown]
    unit = "this run − reference, in percentage points (right of 0: this run is better)"
    if hidden:
        unit += f"\n{fill('not drawn (not compared, or an error): ' + '; '.join(hidden), LINE)}"

    def draw() -> Figure:
        from matplotlib.patches import Patch

        figure, axes = _figure(len(bars), title, unit)
        _bars(axes, bars, colours, "{:+.1f}")
        axes.axvline(0.0, color="black", linewidth=0.8)
        names = {ABOVE: "at or above the reference", BELOW: "below the reference"}
        _legend(figure, [Patch(color=color) for color in names], list(names.values()))
        return figure

    write_figure(draw, file, "Differences from the reference")


def _figure(bars: int, title: str, unit: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 1.7 + 0.3 * bars), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(unit, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _legend(figure: Figure, handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """A line below the plot that names its colors."""
    if handles:
        figure.legend(
            handles, labels, loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False
        )


def _bars(axes: Axes, bars: Sequence[tuple[str, float]], colours: Sequence[str], form: str) -> None:
    values = [value for _, value in bars]
    axes.barh(range(len(bars)), values, color=list(colours), height=0.7)
    for row, value in enumerate(values):
        side = "left" if value >= 0 else "right"
        axes.text(value, row, f" {form.format(value)} ", va="center", ha=side, fontsize=8)
    axes.set_yticks(range(len(bars)), [name for name, _ in bars], fontsize=9)
    axes.margins(x=0.12)
    axes.invert_yaxis()
