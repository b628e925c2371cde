"""`weft show averages`: the papers' averages of runs that have ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.cli.show.run_metrics import RunMetrics
    from weft.evaluation.averages import Average


def averages(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="folders of runs that have ended")],
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on standard output")] = False,
) -> None:
    """The papers' averages: pals_dev (8 values), glue9 (9 values) and superglue (8 tasks), in percent.

    Where a run lacks a value the average is not given; in brackets stands the mean of those it has.
    """
    from weft.cli.show.run_metrics import read_metrics
    from weft.evaluation.averages import AVERAGES, average

    if len(set(folders)) < len(folders):
        twice = next(folder for folder in folders if folders.count(folder) > 1)
        raise WeftError(f"{twice} is given twice")
    runs = {str(folder): read_metrics(folder) for folder in folders}
    found = {name: {kind: average(kind, run.tasks) for kind in AVERAGES} for name, run in runs.items()}
    if as_json:
        print(json.dumps({name: _as_dict(runs[name], own) for name, own in found.items()}))
        return
    for name, run in runs.items():
        for note in _notes(name, run, found[name]):
            print(f"note: {note}", file=sys.stderr)
    _print(found)


def _notes(folder: str, run: RunMetrics, own: Mapping[str, Average]) -> Iterator[str]:
    """What keeps the numbers from being the papers': the split, its rows, and values that are missing."""
    if run.split not in (None, "validation"):
        yield f"{folder}: of the split {run.split!r}; the averages' names are those of other sets"
    for task, (rows, whole) in _other_rows(run, own).items():
        yield f"{folder}: {task} is of {rows:,} rows; the official validation set has {whole:,}"
    for one in own.values():
        if one.values and one.missing:
            lacking = ", ".join(part.name for part in one.missing)
            yield f"{folder}: {one.name} is not given, without {lacking}"


def _other_rows(run: RunMetrics, own: Mapping[str, Average]) -> dict[str, tuple[int, int]]:
    """The tasks that took part with another number of rows than the official set has: (theirs, its)."""
    from weft.evaluation.averages import VALIDATION_ROWS

    parts = [part.task for one in own.values() for part in one.values]
    return {
        task: (run.rows[task], VALIDATION_ROWS[task])
        for task in dict.fromkeys(parts)
        if task in run.rows and run.rows[task] != VALIDATION_ROWS[task]
    }


def _as_dict(run: RunMetrics, own: Mapping[str, Average]) -> dict[str, Any]:
    """Values as shares of 1, as in metrics.json."""
    return {
        "split": run.split,
        "other_rows": {
            task: {"rows": rows, "official": whole} for task, (rows, whole) in _other_rows(run, own).items()
        },
        "averages": {
            one.name: {
                "value": one.value,
                "partial": one.partial,
                "values": len(one.values),
                "of": one.count,
                "parts": {part.name: value for part, value in one.values.items()},
                "missing": [part.name for part in one.missing],
            }
            for one in own.values()
        },
    }


def _print(found: Mapping[str, Mapping[str, Average]]) -> None:
    from weft.cli.tables import print_table
    from weft.evaluation.averages import AVERAGES

    rows: list[list[object]] = []
    for kind, parts in AVERAGES.items():
        if len(found) == 1 or any(own[kind].values for own in found.values()):
            for part in parts:
                rows.append(["", part.name, *(_shown(own[kind].values.get(part)) for own in found.values())])
                rows[-1][0] = kind if part is parts[0] else ""
            rows.append(["", "average", *(_whole(own[kind]) for own in found.values())])
    print("in percent")
    print_table("", ["average", "value", *found], rows)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _whole(one: Average) -> str:
    if one.value is not None or one.partial is None:
        return _shown(one.value)
    return f"({_shown(one.partial)} over {len(one.values)} of {one.count})"
