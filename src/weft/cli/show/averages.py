"""`weft show averages`: the averages that papers report, computed for finished runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.options import Json, MetricsSplit
from weft.cli.output import print_json, print_notes, print_table
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.evaluation.averages import Average
    from weft.evaluation.averages_of_run import RunAverages


def averages(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="folders of finished runs")],
    split: MetricsSplit = "validation",
    as_json: Json = False,
) -> None:
    """Show the averages over tasks that papers report.

    In percent: pals_dev (8 values of GLUE, as in the PALs paper), glue9 (9 values), superglue (8 tasks), mrqa
    (6 tasks), ner (WNUT17) and ca_mtl24 (the 24 values of these four, as in the CA-MTL thesis). If a run
    lacks a value, there is no average; the mean of the values it has is shown in brackets. Runs with other
    tasks also have the average over all tasks, of the first metric of each.

    Example: weft show averages runs/glue runs/glue-lora

    Example: weft show averages runs/halves --split test
    """
    from weft.evaluation.averages_of_run import averages_of_run

    if len(set(folders)) < len(folders):
        twice = next(folder for folder in folders if folders.count(folder) > 1)
        raise WeftError(f"the run {twice} is listed twice; leave one out")
    runs = [averages_of_run(folder, split) for folder in folders]
    if as_json:
        print_json({run.folder: run.as_dict() for run in runs})
        return
    for run in runs:
        print_notes(run.notes)
    rows = _papers(runs)
    if any(run.has_other_tasks for run in runs):
        rows += _all_tasks(runs)
    print_table("in percent", ["average", "task and metric", *(run.folder for run in runs)], rows)


def _papers(runs: Sequence[RunAverages]) -> list[list[object]]:
    """The averages of the papers that some run has a value of."""
    from weft.evaluation.averages import AVERAGES, JOINT

    rows: list[list[object]] = []
    for kind, parts in AVERAGES.items():
        averages = [run.averages[kind] for run in runs]
        if kind in JOINT:
            # its values are in the tables of its groups; it says something new if there are several of them
            if any(run.groups_with_tasks(kind) > 1 for run in runs):
                rows.append([kind, " + ".join(JOINT[kind]), *map(_whole, averages)])
        elif any(average.values for average in averages):
            for part in parts:
                values = [_shown(average.values.get(part)) for average in averages]
                rows.append([kind if part is parts[0] else "", part.name, *values])
            rows.append(["", "average", *map(_whole, averages)])
    return rows


def _all_tasks(runs: Sequence[RunAverages]) -> list[list[object]]:
    """The first metric of every task, and their mean over each run's tasks."""
    names = list(dict.fromkeys(name for run in runs for name in run.all_tasks))
    rows: list[list[object]] = []
    for number, name in enumerate(names):
        values = [_shown(run.all_tasks.get(name)) for run in runs]
        rows.append(["all tasks" if number == 0 else "", name, *values])
    means = [sum(run.all_tasks.values()) / len(run.all_tasks) for run in runs]
    return [*rows, ["", "average", *(_shown(mean) for mean in means)]]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _whole(average: Average) -> str:
    if average.value is not None or average.partial is None:
        return _shown(average.value)
    return f"({_shown(average.partial)} over {len(average.values)} of {average.count})"
