"""Printing for all commands: tables or one JSON object on standard output, notes on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from weft.evaluation.scores import main_score, shown_metric
from weft.utils.notes import is_quiet
from weft.utils.notes import print_note as print_note
from weft.utils.notes import print_notes as print_notes
from weft.utils.strict_json import strict_json
from weft.utils.terminal import console, escaped, escaped_line

if TYPE_CHECKING:
    from weft.evaluation.scores import Scores


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output; the command must print nothing else there."""
    print(strict_json(value))


def print_text(text: object, file: TextIO | None = None) -> None:
    """Print a line that may hold a part of a file, such as a label or a column's name.

    Args:
        text: the line.
        file: the stream; default: standard output.
    """
    print(escaped(str(text)), file=file)


def print_warnings(warnings: Iterable[str]) -> None:
    """Print one line per warning on standard error, unless messages are off."""
    for warning in () if is_quiet() else warnings:
        print_text(f"warning: {warning}", sys.stderr)


def print_written(file: Path | None, as_json: bool) -> None:
    """Print which file was written, if any; on standard error if standard output holds a JSON object."""
    if file is not None and not (as_json and is_quiet()):
        print_text(f"written: {file}", sys.stderr if as_json else sys.stdout)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a title and a table on standard output.

    Args:
        title: the line above the table; an empty one is not printed.
        columns: the headings. The first column is left-aligned, the others are right-aligned.
        rows: the cells; numbers get a comma between thousands.
    """
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    heads = [escaped_line(column) for column in columns]
    cells = [[escaped_line(cell) if isinstance(cell, str) else f"{cell:,}" for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(heads, *cells, strict=True)]
    screen = console()
    # a truncated number is a wrong number: what does not fit stands below, and a pipe has no width
    parts = columns_that_fit(widths, screen.width) if screen.is_terminal else [range(len(heads))]
    screen.width = max(screen.width, sum(widths) + 2 * len(widths))
    if title:
        # not as the table's own title, which rich wraps to the width of the table
        print_text(title)
    for part in parts:
        table = Table(box=None, pad_edge=False)
        # Text and not str, which rich would read as markup: a folder may be named o[red]x
        for number in part:
            table.add_column(Text(heads[number]), justify="right" if number else "left", no_wrap=True)
        for row in cells:
            table.add_row(*(Text(row[number]) for number in part))
        screen.print(table)


def columns_that_fit(widths: Sequence[int], width: int) -> list[Sequence[int]]:
    """Cut a table into parts that fit a screen; each part begins with the first column.

    Args:
        widths: the width of each column in characters. Two spaces stand between columns.
        width: the width of the screen.

    Example:
        >>> columns_that_fit([10, 8, 8, 8], 30)
        [[0, 1, 2], [0, 3]]
    """
    parts: list[list[int]] = [[0]]
    for number in range(1, len(widths)):
        used = sum(widths[column] + 2 for column in parts[-1])
        if used + widths[number] > width and len(parts[-1]) > 1:
            parts.append([0])
        parts[-1].append(number)
    return list(parts)


def print_scores(
    scores: Scores, title: str, baselines: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None
) -> None:
    """Print each task's metrics in percent (errors unscaled), with one column per baseline.

    Args:
        scores: the model's scores.
        title: the line above the table.
        baselines: the metrics of each baseline by task.
    """
    baselines = baselines or {}
    rows: list[list[object]] = []
    for name, metrics in scores["tasks"].items():
        for number, (metric, value) in enumerate(metrics.items()):
            peers = [shown_metric(metric, peer[name].get(metric)) for peer in baselines.values()]
            first = name if number == 0 else ""
            count = _evaluated(scores, name) if number == 0 else ""
            rows.append([first, metric, count, *peers, shown_metric(metric, value)])
    averages = []
    for peer in baselines.values():
        firsts = [main_score(metrics) for metrics in peer.values() if metrics]
        # an average over fewer tasks cannot be compared with the model's
        complete = len(firsts) == len(scores["tasks"])
        averages.append(f"{100 * sum(firsts) / len(firsts):.1f}" if complete else "–")
    rows.append(["average", "of first metrics", "", *averages, f"{100 * scores['average']:.1f}"])
    print_table(title, ["task", "metric", "rows", *baselines, "this model"], rows)


def _evaluated(scores: Scores, name: str) -> str:
    """How many examples were evaluated: `20 of 400`, or `400` if it was all of them."""
    rows, of = scores["rows"][name], scores["of"][name]
    return str(rows) if rows == of else f"{rows} of {of}"
