"""`weft show averages`: the papers' averages of finished runs."""

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
    """The papers' averages: pals_dev (8 values), glue9 (9 values) and superglue (8 tasks), in percent.

    Where a run lacks a value the average is not given; in brackets stands the mean of those it has.
    """
    from weft.evaluation.averages_of_run import averages_of_run

    if len(set(folders)) < len(folders):
        twice = next(folder for folder in folders if folders.count(folder) > 1)
        raise WeftError(f"{twice} is given twice")
    runs = [averages_of_run(folder) for folder in folders]
    if as_json:
        print_json({run.folder: run.as_dict() for run in runs})
        return
    for run in runs:
        print_notes(run.notes)
    _print({run.folder: run.averages for run in runs})


def _print(found: Mapping[str, Mapping[str, Average]]) -> None:
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
