"""Tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from weft.evaluation.evaluate import main_score
from weft.metrics import is_error

if TYPE_CHECKING:
    from weft.evaluation.evaluate import Scores


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on standard output; the first column is text, the others are numbers."""
    # texts, not markup: a folder may be named o[red]x
    table = Table(title=Text(title), title_justify="left", title_style="", box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell if isinstance(cell, str) else f"{cell:,}") for cell in row))
    console = Console()
    # a pipe has no width, and a cut number is a wrong number
    console.width = max(console.width, 120)
    console.print(table)


def print_scores(
    scores: Scores, title: str, beside: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None
) -> None:
    """Each task's metrics in percent (an error as it is), with those of others beside."""
    beside = beside or {}
    rows: list[list[object]] = []
    for name, metrics in scores["tasks"].items():
        for number, (metric, value) in enumerate(metrics.items()):
            peers = [shown(metric, peer[name].get(metric)) for peer in beside.values()]
            first = name if number == 0 else ""
            rows_here = _looked_at(scores, name) if number == 0 else ""
            rows.append([first, metric, rows_here, *peers, shown(metric, value)])
    averages = []
    for peer in beside.values():
        firsts = [main_score(metrics) for metrics in peer.values() if metrics]
        # an average over other tasks would be compared with this model's
        whole = len(firsts) == len(scores["tasks"])
        averages.append(f"{100 * sum(firsts) / len(firsts):.1f}" if whole else "–")
    rows.append(["average", "of first metrics", "", *averages, f"{100 * scores['average']:.1f}"])
    print_table(title, ["task", "metric", "rows", *beside, "this model"], rows)


def _looked_at(scores: Scores, name: str) -> str:
    """How many examples were looked at, and of how many where it was not all."""
    rows, of = scores["rows"][name], scores["of"][name]
    return str(rows) if rows == of else f"{rows} of {of}"


def shown(metric: str, value: float | None) -> str:
    """A metric in percent; an error as it is; none as a dash."""
    if value is None:
        return "–"
    return f"{value:.3f}" if is_error(metric) else f"{100 * value:.1f}"
