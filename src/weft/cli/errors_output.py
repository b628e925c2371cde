"""Printing a report on errors: a few tables per task, each with its most important rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from weft.cli.output import print_table, print_text

ROWS = 12
"""A printed table has at most so many rows; errors.json has more."""
EXAMPLES = 5
"""So many examples are printed."""
WIDEST = 12
"""Matrices of more columns are not printed."""
TABLES = 2
"""Of each task so many tables are printed, the most important ones."""
ANSWER, INPUT = 28, 44
"""Answers and texts are cut after so many characters."""


def print_errors(report: Mapping[str, Any]) -> None:
    """Print a report as tables on standard output.

    Args:
        report: the content of errors.json; see docs/reference/errors.md.
    """
    for name, entry in report["tasks"].items():
        print_text("")
        print_text(_heading(name, entry))
        small = [matrix for matrix in entry["matrices"] if len(matrix["predicted"]) <= WIDEST]
        # a matrix shows what the second table, the most frequent confusions, lists
        for table in entry["tables"][: 1 if small else TABLES]:
            _print_table(name, table)
        for matrix in small:
            pairs = zip(matrix["gold"], matrix["counts"], strict=True)
            rows = [[label, *counts] for label, counts in pairs]
            print_table(f"{name}: {matrix['title']}", ["", *matrix["predicted"]], rows)
        _print_examples(name, entry)


def _heading(name: str, entry: Mapping[str, Any]) -> str:
    """One line: how many examples are wrong, by which kinds of errors, and the calibration."""
    parts = []
    if entry["wrong"] is not None:
        parts.append(f"{entry['wrong']:,} of {entry['rows']:,} examples are wrong")
    kinds = [f"{x['kind']} {x['count']:,}" for x in entry["kinds"] if x["count"]]
    if kinds:
        parts.append(", ".join(kinds))
    if (found := entry["calibration"]) is not None:
        temperature = "none" if found["temperature"] is None else f"{found['temperature']:.3f}"
        fitted = f", fitted on {found['fitted_on']}" if found["fitted_on"] else ""
        parts.append(
            f"ECE {found['ece']:.3f} ({found['bins']} bins, {found['count']:,} decisions, one per "
            f"{found['unit']}), NLL {found['nll']:.3f}, temperature {temperature}{fitted}"
        )
    return f"{name}: {'; '.join(parts) or 'numbers are neither right nor wrong'}"


def _print_table(name: str, table: Mapping[str, Any]) -> None:
    rows = [
        [_cell(value, column["form"]) for value, column in zip(row, table["columns"], strict=True)]
        for row in table["rows"][:ROWS]
    ]
    if not rows:
        return
    more = len(table["rows"]) + table["left_out"] - len(rows)
    title = f"{name}: {table['title']}" + (f" (the first {len(rows)} of {len(rows) + more})" if more else "")
    print_table(title, [column["name"] for column in table["columns"]], rows)


def _cell(value: Any, form: str) -> object:
    if value is None:
        return "–"
    if form == "share":
        return f"{100 * value:.1f}"
    return f"{value:.3f}" if form == "number" else value


def _print_examples(name: str, entry: Mapping[str, Any]) -> None:
    """The examples with the largest errors."""
    rows: list[list[object]] = []
    for example in entry["examples"][:EXAMPLES]:
        texts = " | ".join(_text(value) for value in example["input"].values())
        answers = _differences(example)
        rows.append([str(example["row"]), f"{example['error']:.3f}", *answers, _short(texts, INPUT)])
    if rows:
        unit = entry["examples"][0]["unit"]
        title = f"{name}: the largest errors, by {entry['examples_by']}"
        print_table(title, [unit, "error", "gold", "predicted", "input"], rows)


def _differences(example: Mapping[str, Any]) -> list[object]:
    """Gold and predicted; of entities only those that differ."""
    if not example["details"]:
        return [_short(_text(example[side]), ANSWER) for side in ("gold", "predicted")]
    sides = []
    for side in ("gold", "predicted"):
        entities = [error[side] for error in example["details"]]
        shown = ", ".join("–" if e is None else f"{e['text']} ({e['type']})" for e in entities)
        sides.append(_short(shown, ANSWER))
    return list(sides)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, Sequence):
        return (
            ", ".join(map(_text, value))
            if all(isinstance(x, str) for x in value)
            else json.dumps([round(x, 3) if isinstance(x, float) else x for x in value])
        )
    return str(value)


def _short(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
