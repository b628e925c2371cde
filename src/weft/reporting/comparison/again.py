"""The runs of a comparison that were trained once more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.experiments.again import devices, in_points, judgement
from weft.reporting.comparison_data import ComparisonData
from weft.reporting.page import Section
from weft.reporting.tables import NONE, Cell, Table
from weft.utils.markup import join, tag

AGREES = {True: Cell("yes", class_="better"), False: Cell("no", class_="worse"), None: Cell(NONE)}


def _difference(run: Mapping[str, Any]) -> str:
    if run["failed"]:
        return f"failed: {run['failed'].splitlines()[0]}"
    if run["equal"]:
        return "equal bit by bit"
    return f"{run['task']} {in_points(run['difference'])}" if run["task"] else NONE


def again_section(data: ComparisonData, key: str) -> Section | None:
    """One row per run: the average of both trainings, and whether they agree."""
    runs = data.results.get("again")
    if not runs:
        return None
    rows = [
        [
            run["run"],
            *(NONE if run[name] is None else f"{100 * run[name]:.2f}" for name in ("then", "now")),
            _difference(run),
            AGREES[run["agrees"]],
            devices(run["machines"]),
        ]
        for run in runs
    ]
    columns = ("run", "average", "trained again", "largest difference of a task", "agrees", "trained on")
    table = Table("Runs that were trained again", columns, rows, texts=(3, 4, 5))
    words = [tag("p", f"{sentence[:1].upper()}{sentence[1:]}.") for sentence in judgement(runs)]
    return Section(key, "Trained again", join([*words, table.html()]))
