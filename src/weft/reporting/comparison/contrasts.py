"""Differences between variants: a forest plot of the averages, and of each task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.experiments.tables import interval, verdict
from weft.reporting.comparison_data import ComparisonData
from weft.reporting.page import Section, absent, code, figure
from weft.reporting.pictures.bars import Bar, forest
from weft.reporting.tables import NONE, Cell, Table
from weft.utils.markup import Html, join, tag

CLASSES = {"better": "good", "worse": "bad", "held": "good", "not held": "bad"}
"""The look of each verdict; others have none."""


def contrasts_section(data: ComparisonData, key: str) -> Section:
    """The contrasts of the grid with their intervals and verdicts."""
    title = "Differences"
    contrasts = data.statistics.get("contrasts") or ()
    if not contrasts:
        how = join(
            ["the grid names none; set ", code("baseline: VARIANT"), " or ", code("contrasts"), " in it"]
        )
        return Section(key, title, absent("Differences between variants", how))
    rows = [_bar(contrast, contrast["average"]) for contrast in contrasts if contrast["average"] is not None]
    verdicts = [str(contrast["verdict"] or "none") for contrast in contrasts]
    counted = ", ".join(f"{verdicts.count(name)} {name}" for name in dict.fromkeys(verdicts))
    description = (
        f"{len(contrasts)} differences of {data.average_name}, with 95 percent intervals: {counted}."
    )
    parts: list[object] = [
        tag(
            "p",
            "An interval that does not contain 0 is not yet a verdict: verdicts are corrected for the number "
            "of differences (Holm). Undecided does not mean equal.",
        )
    ]
    table = _table(data, contrasts)
    if rows:
        picture = forest(
            rows,
            key=f"{key}-0",
            title=f"Differences of {data.average_name}",
            description=description,
            x_name=f"difference of {data.average_name}, in points",
        )
        parts.append(
            figure(f"differences of {data.average_name}", picture, None, "fill narrow", [description])
        )
    parts.append(table)
    parts.append(_by_task(data, contrasts, key))
    return Section(key, title, join(parts))


def _bar(contrast: Mapping[str, Any], difference: Mapping[str, Any]) -> Bar:
    low, high = difference["interval"] or (None, None)
    return Bar(
        name(contrast),
        100 * difference["estimate"],
        None if low is None else 100 * low,
        None if high is None else 100 * high,
        text=f"{100 * difference['estimate']:+.2f}",
        verdict=str(contrast["verdict"] or "none").replace(" ", "-"),
    )


def name(contrast: Mapping[str, Any]) -> str:
    """A contrast in words."""
    return f"{contrast['variant']} − {contrast['baseline']}"


def _table(data: ComparisonData, contrasts: Any) -> Html:
    rows: list[list[object]] = []
    for contrast in contrasts:
        difference = contrast["average"]
        rows.append(
            [
                name(contrast),
                NONE if difference is None else f"{100 * difference['estimate']:+.2f}",
                interval(difference),
                Cell(verdict(contrast), class_=CLASSES.get(contrast["verdict"] or "")),
                NONE if contrast["p_holm"] is None else f"{contrast['p_holm']:.3f}",
                NONE if contrast["smallest"] is None else f"{100 * contrast['smallest']:.2f}",
            ]
        )
    columns = ("contrast", "difference", "95 % interval", "verdict", "p (Holm)", "could show")
    notes = [
        "In points. p (Holm): the p-value, corrected for the number of differences. Could show: the smallest "
        "true difference that this comparison would have shown with a probability of 80 percent."
    ]
    caption = f"Differences of {data.average_name}"
    return Table(caption, columns, rows, texts=(3,), notes=notes, cards=True).html()


def _by_task(data: ComparisonData, contrasts: Any, key: str) -> Html | None:
    """The differences of single tasks, which have intervals and no verdicts, to be unfolded."""
    blocks: list[object] = []
    for place, task in enumerate(data.tasks):
        rows = [
            Bar(bar.name, bar.value, bar.low, bar.high, bar.text)
            for contrast in contrasts
            if task in contrast["tasks"]
            for bar in [_bar(contrast, contrast["tasks"][task])]
        ]
        if not rows:
            continue
        description = f"{len(rows)} differences on {task}, with 95 percent intervals and without verdicts."
        picture = forest(
            rows,
            key=f"{key}-task-{place}",
            title=f"Differences on {task}",
            description=description,
            x_name=f"difference on {task}, in points",
        )
        numbers = [[row.name, row.text, _ends(row)] for row in rows]
        table = Table(f"Differences on {task}", ("contrast", "difference", "95 % interval"), numbers)
        blocks.append(figure(task, picture, table.html(hide_caption=True), "fill narrow"))
    if not blocks:
        return None
    note = tag(
        "p",
        "Intervals without verdicts: of many tasks some differ by chance.",
        class_="note",
    )
    return tag("details", tag("summary", "Differences by task"), note, *blocks)


def _ends(row: Bar) -> str:
    return NONE if row.low is None or row.high is None else f"{row.low:+.2f} to {row.high:+.2f}"
