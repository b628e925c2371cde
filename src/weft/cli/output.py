"""What commands print: one JSON object or tables on standard output, notes on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.evaluation.scores import main_score
from weft.metrics import is_error
from weft.utils.notes import print_note as print_note
from weft.utils.notes import print_notes as print_notes

if TYPE_CHECKING:
    from weft.evaluation.scores import Scores


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object on standard output, which holds nothing else then."""
    print(json.dumps(value))


def print_warnings(warnings: Iterable[str]) -> None:
    """Lines on standard error."""
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)


def print_written(file: Path | None, as_json: bool) -> None:
    """Which file was written, if one was; on standard error beside a JSON object."""
    if file is not None:
        print(f"written: {file}", file=sys.stderr if as_json else sys.stdout)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on standard output; the first column is text, the others are numbers."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

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
    scores: Scores, title: str, baselines: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None
) -> None:
    """Each task's metrics in percent (an error as it is), with those of baselines beside."""
    baselines = baselines or {}
    rows: list[list[object]] = []
    for name, metrics in scores["tasks"].items():
        for number, (metric, value) in enumerate(metrics.items()):
            peers = [shown(metric, peer[name].get(metric)) for peer in baselines.values()]
            first = name if number == 0 else ""
            count = _evaluated(scores, name) if number == 0 else ""
            rows.append([first, metric, count, *peers, shown(metric, value)])
    averages = []
    for peer in baselines.values():
        firsts = [main_score(metrics) for metrics in peer.values() if metrics]
        # an average over different tasks would be compared with this model's
        whole = len(firsts) == len(scores["tasks"])
        averages.append(f"{100 * sum(firsts) / len(firsts):.1f}" if whole else "–")
    rows.append(["average", "of first metrics", "", *averages, f"{100 * scores['average']:.1f}"])
    print_table(title, ["task", "metric", "rows", *baselines, "this model"], rows)


def _evaluated(scores: Scores, name: str) -> str:
    """How many examples were evaluated, and of how many where it was not all."""
    rows, of = scores["rows"][name], scores["of"][name]
    return str(rows) if rows == of else f"{rows} of {of}"


def shown(metric: str, value: float | None) -> str:
    """A metric in percent; an error as it is; none as a dash."""
    if value is None:
        return "–"
    return f"{value:.3f}" if is_error(metric) else f"{100 * value:.1f}"
