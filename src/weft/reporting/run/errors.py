"""What a model gets wrong, from the error reports that `weft evaluate --report` writes.

`errors.json` is about the validation rows, `errors.test.json` about the test rows. Tables name their columns
and how their cells are shown, so nothing here knows any kind of task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.reporting.page import Section, absent, code, figure
from weft.reporting.pictures.heat_map import heat_map
from weft.reporting.pictures.lines import Line, line_chart
from weft.reporting.run_data import ERRORS, RunData, number
from weft.reporting.tables import NONE, Table
from weft.utils.markup import Html, join, tag
from weft.utils.safe_json import read_json

EXAMPLES = 10
"""The most wrong examples of a task on the page; the file has more."""
ROWS = 100
"""The most rows of a table on the page."""
MATRIX = 12
"""The most labels of a confusion matrix that is drawn; larger ones are tables only."""


def errors_section(run: RunData, key: str) -> Section:
    """The error reports in a run's folder."""
    reports = [(run.folder / name) for name in ERRORS if (run.folder / name).is_file()]
    if not reports:
        how = code(f"weft evaluate {run.folder} --report")
        return Section(key, "Errors", absent("What the model gets wrong", join(["it is written by ", how])))
    parts: list[object] = []
    for place, path in enumerate(reports):
        contents = read_json(path, "weft evaluate --report writes it")
        tasks = contents.get("tasks")
        tasks = tasks if isinstance(tasks, dict) else {}
        parts.append(tag("p", f"Split {contents.get('split', NONE)}, from {path.name}."))
        for number_, (name, entry) in enumerate(tasks.items()):
            if isinstance(entry, dict):
                parts.append(_task(str(name), entry, f"{key}-{place}-{number_}"))
    return Section(key, "Errors", join(parts))


def _task(name: str, entry: Mapping[str, Any], key: str) -> Html:
    """The errors of one evaluated set, to be unfolded."""
    rows, wrong = entry.get("rows"), entry.get("wrong")
    count = (
        f"{wrong:,} of {rows:,} wrong" if isinstance(wrong, int) and isinstance(rows, int) else f"{rows} rows"
    )
    parts: list[object] = []
    kinds = [row for row in entry.get("kinds") or () if isinstance(row, dict) and row.get("count")]
    if kinds:
        parts.append(
            Table(
                "Kinds of errors", ("kind", "count"), [[row.get("kind"), row["count"]] for row in kinds]
            ).html()
        )
    parts += [_table(table) for table in entry.get("tables") or () if isinstance(table, dict)]
    for place, matrix in enumerate(entry.get("matrices") or ()):
        if isinstance(matrix, dict):
            parts.append(_matrix(matrix, name, f"{key}-matrix-{place}"))
    if isinstance(entry.get("calibration"), dict):
        parts.append(_calibration(entry["calibration"], name, f"{key}-calibration"))
    examples = [example for example in entry.get("examples") or () if isinstance(example, dict)]
    if examples:
        parts.append(_examples(examples, str(entry.get("examples_by", "error"))))
    return tag("details", tag("summary", f"{name}: {count}"), *parts, class_="errors")


def _table(table: Mapping[str, Any]) -> Html:
    columns = [column for column in table.get("columns") or () if isinstance(column, dict)]
    forms = [str(column.get("form")) for column in columns]
    rows = list(table.get("rows") or ())
    shown = [[_cell(cell, form) for cell, form in zip(row, forms, strict=False)] for row in rows[:ROWS]]
    hidden = len(rows) - len(shown) + int(number(table.get("left_out")) if table.get("left_out") else 0)
    texts = [place for place, form in enumerate(forms) if form == "text"]
    notes = [f"{hidden:,} more rows are not shown."] if hidden else []
    names = [str(column.get("name")) for column in columns]
    return Table(str(table.get("title", table.get("name"))), names, shown, texts=texts, notes=notes).html()


def _cell(value: Any, form: str) -> str:
    if value is None:
        return NONE
    if form == "share" and isinstance(value, int | float):
        return f"{100 * value:.1f}"
    if form == "count" and isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if form == "number" and isinstance(value, int | float) else str(value)


def _matrix(matrix: Mapping[str, Any], task: str, key: str) -> Html:
    """A confusion matrix: the shares of each gold label."""
    gold, predicted = [str(x) for x in matrix["gold"]], [str(x) for x in matrix["predicted"]]
    counts = [[number(x) for x in row] for row in matrix["counts"]]
    title = str(matrix.get("title", "Confusion matrix"))
    rows = [[name, *(f"{x:,.0f}" for x in row)] for name, row in zip(gold, counts, strict=True)]
    table = Table(f"{task}: {title}", ("gold", *predicted), rows)
    if max(len(gold), len(predicted)) > MATRIX:
        return table.html()
    largest = max((x for row in counts for x in row), default=1.0) or 1.0
    right = sum(row[j] for i, row in enumerate(counts) for j in range(len(row)) if gold[i] == predicted[j])
    total = sum(x for row in counts for x in row)
    description = f"{right:,.0f} of {total:,.0f} are on the diagonal."
    picture = heat_map(
        gold,
        predicted,
        counts,
        key=key,
        title=f"{task}: {title}",
        description=description,
        low=-largest,
        high=largest,
        text="{:,.0f}".format,
        x_name="predicted",
        y_name="gold",
    )
    return figure(title, picture, table.html(hide_caption=True), "keep", [description])


def _calibration(facts: Mapping[str, Any], task: str, key: str) -> Html:
    """The reliability diagram: confidence against accuracy."""
    bins = [bin_ for bin_ in facts.get("reliability") or () if isinstance(bin_, dict)]
    confidence = [100 * number(bin_.get("confidence")) for bin_ in bins]
    accuracy = [100 * number(bin_.get("accuracy")) for bin_ in bins]
    temperature = facts.get("temperature")
    description = (
        f"Expected calibration error {100 * number(facts.get('ece')):.1f} percent over "
        f"{facts.get('count', 0):,} {facts.get('unit', 'decision')}s; negative log likelihood "
        f"{number(facts.get('nll')):.3f}; "
        + ("no temperature" if temperature is None else f"temperature {number(temperature):.3f}")
        + ". A line below the diagonal means that the model is too certain."
    )
    lines = [
        Line("right as often as certain", [0.0, 100.0], [0.0, 100.0], number=6),
        Line("accuracy", confidence, accuracy, number=0),
    ]
    picture = line_chart(
        lines,
        key=key,
        title=f"{task}: calibration",
        description=description,
        x_name="confidence in percent",
        y_name="accuracy in percent",
        y_limits=(0.0, 100.0),
        hover=False,
    )
    rows = [
        [
            f"{100 * number(b.get('low')):.0f} to {100 * number(b.get('high')):.0f}",
            f"{b.get('count', 0):,}",
            f"{c:.1f}",
            f"{a:.1f}",
        ]
        for b, c, a in zip(bins, confidence, accuracy, strict=True)
    ]
    columns = ("confidence from, to", "count", "mean confidence", "accuracy")
    table = Table(f"{task}: calibration", columns, rows, sortable=False).html(hide_caption=True)
    return figure("calibration", picture, table, "fill", [description])


def _examples(examples: Sequence[Mapping[str, Any]], by: str) -> Html:
    rows = []
    for example in examples[:EXAMPLES]:
        inputs = example.get("input")
        text = "; ".join(f"{k}: {v}" for k, v in inputs.items()) if isinstance(inputs, dict) else str(inputs)
        place = f"{example.get('unit', 'row')} {example.get('row')}"
        error = example.get("error")
        rows.append(
            [
                place,
                text,
                _answer(example.get("gold")),
                _answer(example.get("predicted")),
                NONE if not isinstance(error, int | float) else f"{error:.3f}",
            ]
        )
    columns = ("place", "input", "gold", "predicted", "error")
    return Table(f"The worst errors, by {by}", columns, rows, texts=(2, 3), long=(1,)).html()


def _answer(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
