"""The plots of docs/results/speed.md, from a run's results."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.speed.results import Results, Work
from weft.analysis.plots.picture import write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WEFT, PEER, OTHER = "#2a6f97", "#bc6c25", "#8d99ae"
"""weft's bars, PEFT's, and those of the bare encoder and the limit."""


def draw(results: Results, folder: Path) -> list[Path]:
    """Write the plots of training steps, mixed inference and every method, as far as they were measured."""
    kind = results.machine["device"]
    folder.mkdir(parents=True, exist_ok=True)
    by_section: dict[str, list[Work]] = {}
    for work in results.works:
        if work.rows and work.section != "real":
            by_section.setdefault(work.section, []).append(work)
    written = []
    for section, works in by_section.items():
        file = folder / f"performance-{section}-{kind}.svg"
        write_figure(partial(bars, works), file, f"weft: {section}")
        written.append(file)
    return written


def bars(works: list[Work]) -> Figure:
    """One panel per piece of work, one bar per variant; the whiskers are the quartiles."""
    from matplotlib.figure import Figure

    most = max(len(work.rows) for work in works)
    figure = Figure(figsize=(4.2 + 3.2 * len(works), 1.0 + 0.26 * most), layout="constrained")
    panels: Any = figure.subplots(1, len(works), squeeze=False)[0]
    for panel, work in zip(panels, works, strict=True):
        rows = list(reversed(work.rows))
        places = range(len(rows))
        times = [row["ms"] for row in rows]
        low = [row["ms"] - row.get("low", row["ms"]) for row in rows]
        high = [row.get("high", row["ms"]) - row["ms"] for row in rows]
        panel.barh(places, times, xerr=[low, high], color=[colour(row["variant"]) for row in rows])
        panel.set_yticks(places, [row["variant"] for row in rows], fontsize=7)
        for place, row in zip(places, rows, strict=True):
            told = f" {row['ratio']:.2f}x" if "ratio" in row else ""
            panel.text(row["ms"] + high[place], place, told, va="center", fontsize=7)
        basis = work.ms(work.basis)
        if basis is not None and work.shows == "cost":
            panel.axvline(basis, color="black", linewidth=0.6, linestyle=":")
        panel.margins(x=0.18, y=0.01)
        panel.set_xlabel("ms", fontsize=8)
        panel.set_title(work.name, fontsize=9)
        panel.tick_params(axis="x", labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
    return figure


def colour(variant: str) -> str:
    """The colour of a variant's bar."""
    return WEFT if variant.startswith("weft") else PEER if variant.startswith("peft") else OTHER
