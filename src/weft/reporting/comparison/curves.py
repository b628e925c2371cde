"""Learning curves of a comparison: the median over seeds and the range; and steps to a score."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from weft.reporting.comparison_data import ComparisonData
from weft.reporting.curve_sets import curves_of_comparison, variant_curve
from weft.reporting.curves import first_reaching
from weft.reporting.page import Section, absent, code, figure
from weft.reporting.pictures.bars import Bar, bars
from weft.reporting.tables import NONE, Cell, Table
from weft.utils.markup import Html, join, tag

GOALS = (0.9, 0.95, 0.99)
"""The shares of the best score to which steps are counted."""


def curves_section(data: ComparisonData, key: str) -> Section:
    """One chart per task, and one of the average: a line per variant."""
    title = "Learning curves"
    curves = curves_of_comparison(data)
    if not curves.curves:
        return Section(key, title, _no_curves(data))
    text = (
        "The line is the median over seeds, the band reaches from the lowest to the highest seed. Scores are "
        "of the evaluations during training, on the rows of train.evaluate_rows."
    )
    parts = [tag("p", text), curves.switches(), tag("div", *curves.figures(key), class_="charts")]
    return Section(key, title, join(parts))


def _no_curves(data: ComparisonData) -> Html:
    if data.records:
        how: object = join(["no run was evaluated while it trained; set ", code("train.evaluate_every")])
    else:
        again = code(f"weft compare GRID.yaml --out {data.folder}")
        how = join(["tables.json of this folder does not name its records; write it again: ", again])
    return absent("Learning curves", how)


def speed_section(data: ComparisonData, key: str) -> Section | None:
    """How many steps each variant needs to reach a share of the best score."""
    names = [name for name in data.names if data.points.get(name)]
    last = {name: variant_curve(data, name, "").middle[-1:] for name in names}
    finals = [value[0] for value in last.values() if value]
    if not finals:
        return None
    best = max(finals)
    goals = [share * best for share in GOALS]
    rows: list[list[object]] = []
    for name in names:
        seeds = [of_seed.get("", {}) for of_seed in data.points[name].values()]
        rows.append([name, *(_reached(seeds, goal) for goal in goals)])
    columns = [
        "variant",
        *(f"{goal:.1f} ({100 * share:.0f} %)" for share, goal in zip(GOALS, goals, strict=True)),
    ]
    notes = [
        f"The first evaluated step at which the {data.average} reaches 90, 95 and 99 percent of {best:.1f}, "
        "the largest last median of any variant: the median over the seeds that reach it, and how many do. "
        "Steps between two evaluations are not seen. – means that no seed reaches it."
    ]
    table = Table(f"Steps until the {data.average} reaches a score", columns, rows, notes=notes)
    shown = _speed_picture(data, names, goals[1], f"{key}-0")
    return Section(key, "Steps to a score", join([table.html(), shown]))


def _speed_picture(data: ComparisonData, names: Sequence[str], goal: float, key: str) -> Html:
    """The steps to one score as bars, the fastest variant first."""
    rows = []
    for name in names:
        seeds = [of_seed.get("", {}) for of_seed in data.points[name].values()]
        cell = _reached(seeds, goal)
        text = "never" if cell.sort is None else str(cell.text)
        rows.append(Bar(name, cell.sort, text=text, number=data.looks[name]))
    rows.sort(key=lambda row: float("inf") if row.value is None else row.value)
    reached = [row for row in rows if row.value is not None]
    fastest = f" The fastest: {reached[0].name}, {reached[0].text}." if reached else ""
    description = f"{len(reached)} of {len(rows)} variants reach {goal:.1f}.{fastest}"
    title = f"steps to {goal:.1f}"
    picture = bars(rows, key=key, title=title, description=description, x_name="steps")
    return figure(title, picture, None, "fill narrow", [description])


def _reached(seeds: Sequence[dict[int, float]], goal: float) -> Cell:
    steps = [step for points in seeds if (step := first_reaching(points, goal)) is not None]
    if not steps:
        return Cell(NONE)
    middle = median(steps)
    some = "" if len(steps) == len(seeds) else f" ({len(steps)} of {len(seeds)} seeds)"
    return Cell(f"{middle:,.0f}{some}", middle)
