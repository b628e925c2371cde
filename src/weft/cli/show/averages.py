"""`weft show averages`: the averages that papers report, computed for finished runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.options import Json
from weft.cli.output import print_json, print_notes, print_table
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.evaluation.averages import Average


def averages(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="folders of finished runs")],
    as_json: Json = False,
) -> None:
    """Show the averages over tasks that papers report.

    In percent: pals_dev (8 values of GLUE, as in the PALs paper), glue9 (9 values) and superglue (8 tasks).
    If a run lacks a value, there is no average; the mean of the values it has is shown in brackets.

    Example: weft show averages runs/glue runs/glue-lora
    """
    from weft.evaluation.averages_of_run import averages_of_run

    if len(set(folders)) < len(folders):
        twice = next(folder for folder in folders if folders.count(folder) > 1)
        raise WeftError(f"the run {twice} is listed twice; leave one out")
    runs = [averages_of_run(folder) for folder in folders]
    if as_json:
        print_json({run.folder: run.as_dict() for run in runs})
        return
    for run in runs:
        print_notes(run.notes)
    _print({run.folder: run.averages for run in runs})


def _print(by_run: Mapping[str, Mapping[str, Average]]) -> None:
    from weft.evaluation.averages import AVERAGES

    rows: list[list[object]] = []
    for kind, parts in AVERAGES.items():
        averages = [run[kind] for run in by_run.values()]
        if len(averages) == 1 or any(average.values for average in averages):
            for part in parts:
                values = [_shown(average.values.get(part)) for average in averages]
                rows.append([kind if part is parts[0] else "", part.name, *values])
            rows.append(["", "average", *map(_whole, averages)])
    print_table("in percent", ["average", "value", *by_run], rows)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _whole(average: Average) -> str:
    if average.value is not None or average.partial is None:
        return _shown(average.value)
    return f"({_shown(average.partial)} over {len(average.values)} of {average.count})"
