"""How tasks relate: cosines of their gradients, and the similarity of what they have learned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from weft.errors import WeftError
from weft.reporting.curves import curve_of, table_of
from weft.reporting.page import Section, absent, code, figure
from weft.reporting.pictures.heat_map import heat_map
from weft.reporting.pictures.lines import Line, line_chart
from weft.reporting.run_data import RunData, number, numbers_of
from weft.reporting.tables import NONE, Table
from weft.utils.markup import Html, join, tag
from weft.utils.safe_json import read_json

SIMILARITY, COVARIANCE = "similarity.json", "covariance.json"
"""Files of a run's folder: the output of `weft show similarity --json` and `weft show covariance --json`."""


UPDATES = {"weight": "updates of weights", "bias": "updates of biases"}
"""The titles of the parts of an update."""


def conflict_section(run: RunData, key: str) -> Section:
    """The mean cosine of each pair of tasks' gradients, and how often they conflict."""
    title = "Gradient conflicts"
    windows = [
        (evaluation.step, evaluation.facts["conflict"])
        for evaluation in run.evaluations
        if isinstance(evaluation.facts.get("conflict"), dict)
    ]
    matrix = mean_cosines(run.tasks, [window for _, window in windows])
    if not any(math.isfinite(value) for row in matrix for value in row):
        how = join(
            [
                "cosines are logged by ",
                code("train.conflict: mean"),
                ", which changes nothing else, or by a method that merges gradients, in steps with "
                "several tasks",
            ]
        )
        return Section(key, title, absent("Cosines of the tasks' gradients", how))
    pairs = [
        (matrix[i][j], f"{run.tasks[i]} and {run.tasks[j]}")
        for i, j in combinations(range(len(run.tasks)), 2)
        if math.isfinite(matrix[i][j])
    ]
    low, high = min(pairs), max(pairs)
    description = (
        f"Mean cosines over the evaluations, of gradients of what tasks share, before any merging. Lowest: "
        f"{low[1]}, {low[0]:.2f}. Highest: {high[1]}, {high[0]:.2f}. Below 0 two tasks pull apart."
    )
    picture = heat_map(
        run.tasks,
        run.tasks,
        matrix,
        key=f"{key}-0",
        title="Cosines of gradients",
        description=description,
        low=-_reach(matrix),
        high=_reach(matrix),
    )
    table = matrix_table("Mean cosine of the gradients of two tasks", run.tasks, matrix)
    shown = [figure("mean cosine of each pair", picture, table, "keep")]
    shares = {step: 100 * number(window.get("conflicting")) for step, window in windows}
    curve = curve_of([shares])
    if curve.steps:
        line = Line("conflicting", curve.steps, curve.middle)
        text = f"First {curve.middle[0]:.0f} percent, last {curve.middle[-1]:.0f} percent."
        chart = line_chart(
            [line],
            key=f"{key}-1",
            title="Share of pairs that conflict",
            description=text,
            y_name="percent of pairs",
        )
        numbers = table_of("Conflicting pairs in percent", {"conflicting": curve}).html(hide_caption=True)
        shown.append(figure("pairs with a cosine below 0", chart, numbers, "fill", [text]))
    return Section(key, title, join([tag("p", description), tag("div", *shown, class_="charts pairs")]))


def mean_cosines(tasks: Sequence[str], windows: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """The mean cosine of each pair over windows, weighted by their steps, [T][T]; nan: never together.

    Args:
        tasks: the tasks, in the order in which the log names pairs.
        windows: the field `conflict` of each evaluation.
    """
    sums = {pair: [0.0, 0.0] for pair in combinations(range(len(tasks)), 2)}
    for window in windows:
        cosines, steps = numbers_of(window.get("cosine")), number(window.get("steps"))
        for i, j in sums:
            value = cosines.get(f"{tasks[i]}|{tasks[j]}", math.nan)
            if math.isfinite(value) and steps > 0:
                sums[i, j][0] += steps * value
                sums[i, j][1] += steps
    matrix = [[math.nan] * len(tasks) for _ in tasks]
    for (i, j), (total, weight) in sums.items():
        if weight:
            matrix[i][j] = matrix[j][i] = total / weight
    return matrix


def _reach(matrix: Sequence[Sequence[float]]) -> float:
    """The size that has the strongest color: cosines of gradients are often small."""
    return max((abs(value) for row in matrix for value in row if math.isfinite(value)), default=1.0) or 1.0


def matrix_table(caption: str, tasks: Sequence[str], matrix: Sequence[Sequence[float]]) -> Html:
    """A matrix of tasks as a table."""
    rows = [
        [task, *(f"{value:.3f}" if math.isfinite(value) else NONE for value in row)]
        for task, row in zip(tasks, matrix, strict=True)
    ]
    return Table(caption, ("task", *tasks), rows).html(hide_caption=True)


def similarity_section(run: RunData, key: str) -> Section:
    """The similarity of the tasks' updates and of the covariances of their inputs, if they were computed."""
    title = "Similarity of tasks"
    parts: list[object] = []
    for file, name, command in (
        (SIMILARITY, "Cosines of the tasks' updates", "similarity"),
        (COVARIANCE, "Similarity of the inputs' covariances (CovSim)", "covariance"),
    ):
        path = run.folder / file
        if not path.is_file():
            text = f"weft show {command} {run.folder} --json > {path}"
            parts.append(absent(name, join(["it needs the model, and is computed by ", code(text)])))
            continue
        try:
            matrices = _matrices(path)
        except WeftError as wrong:  # a command that failed leaves an empty file
            parts.append(absent(name, str(wrong)))
            continue
        for place, (caption, tasks, matrix) in enumerate(matrices):
            picture_key = f"{key}-{command}-{place}"
            description = f"{name}: {caption}."
            picture = heat_map(tasks, tasks, matrix, key=picture_key, title=caption, description=description)
            parts.append(figure(caption, picture, matrix_table(caption, tasks, matrix), "keep"))
    return Section(key, title, join(parts))


def _matrices(path: Path) -> list[tuple[str, list[str], list[list[float]]]]:
    """The matrices over all tasks in a file: the title, the tasks and the numbers of each."""
    contents = read_json(path, "a command with --json writes it")
    tasks = [str(task) for task in contents.get("order", contents.get("tasks", ()))]
    average = contents.get("average")
    named: dict[str, Any] = {}
    if isinstance(average, dict):
        named = {title: average.get(part) for part, title in UPDATES.items()}
    named["covariance of inputs"] = contents.get("covsim")
    found = []
    for title, value in named.items():
        if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
            continue
        matrix = [[number(x) for x in row] for row in value]
        if len(matrix) == len(tasks) and all(len(row) == len(tasks) for row in matrix):
            found.append((title, tasks, matrix))
    return found
