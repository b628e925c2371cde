"""The table of scores, and what a paper printed beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.experiments.tables import average_in_words, chosen, score, trained
from weft.reporting.comparison.limits import contaminated
from weft.reporting.comparison_data import ComparisonData
from weft.reporting.page import Section
from weft.reporting.tables import NONE, Cell, Table
from weft.utils.markup import join, tag

MARK = "†"
"""Stands beside the name of a column that must not be read as a score on new texts."""


def scores_section(data: ComparisonData, key: str) -> Section:
    """One row per variant: the score of each task, the average, and what it cost."""
    marked = contaminated(data)
    average = data.average
    tasks = [task for task in data.tasks if task != average]
    tuned = list(dict.fromkeys(name for facts in data.variants.values() for name in facts["chosen"]))
    heads = [f"{task}{MARK}" if task in marked else task for task in (average, *tasks)]
    columns = ["variant", "seeds", *heads, *tuned, "trained", "seconds"]
    targets = [average, *tasks]
    best = {
        target: max((data.mean(name, target) or -1.0 for name in data.names), default=None)
        for target in targets
    }
    rows: list[list[object]] = []
    for name, facts in data.variants.items():
        cells = [_score(data.estimate(name, target), best[target]) for target in targets]
        rows.append(
            [
                name,
                len(facts["seeds"]),
                *cells,
                *(chosen(facts, setting) for setting in tuned),
                trained(facts),
                NONE if facts["seconds"] is None else f"{facts['seconds']:,.0f}",
            ]
        )
    notes = [
        f"Scores in percent on the {data.results.get('report', 'validation')} rows: mean over seeds ± "
        "standard error, which holds the variation of seeds and of rows. Bold: the largest mean of a column, "
        "which need not be better than the next one. Trained: parameters outside heads, in percent of "
        "the encoder. Seconds: the mean of the runs' training times."
    ]
    words = average_in_words(data.statistics)
    notes.append(f"{words[0].upper()}{words[1:]}.")
    if marked:
        notes.append(
            f"{MARK} texts that the encoder or another task has seen: see What must not be concluded."
        )
    table = Table("Scores of each variant", columns, rows, notes=notes)
    about = data.results.get("about")
    return Section(key, "Scores", join([tag("p", about) if about else None, table.html()]))


def _score(estimate: Mapping[str, Any] | None, best: float | None) -> Cell:
    if estimate is None:
        return Cell(NONE)
    mean = float(estimate["mean"])
    return Cell(score(estimate), mean, "best" if best is not None and mean >= best else None)


def published_section(data: ComparisonData, key: str) -> Section | None:
    """What a paper printed, ours beside it, and the difference."""
    published = data.results["published"].get("rows")
    if not published:
        return None
    columns = list(dict.fromkeys(column for row in published.values() for column in row))
    rows: list[list[object]] = []
    for name, row in published.items():
        for column in columns:
            if column not in row:
                continue
            ours, is_score = _ours(data, name, column)
            theirs = row[column]
            difference = NONE
            if ours is not None and isinstance(theirs, int | float):
                difference = f"{ours - theirs:+.2f}"
            shown = NONE if ours is None else f"{ours:.1f}" if is_score else f"{ours:.2f}"
            rows.append([name, column, str(theirs), shown, difference])
    source = str(data.results["published"].get("source", "published"))
    notes = [
        "A difference says nothing about who is right: encoders, steps, data and splits may differ. The text "
        "above the table and the recipe say what is known."
    ]
    table = Table(
        source, ("variant", "column", "published", "ours", "difference"), rows, texts=(1,), notes=notes
    )
    return Section(key, "Published figures", table.html())


def _ours(data: ComparisonData, variant: str, column: str) -> tuple[float | None, bool]:
    value = data.variants.get(variant, {}).get("published", {}).get(column)
    if isinstance(value, int | float):
        return float(value), False
    mean = data.mean(variant, None if column == "average" else column) if variant in data.variants else None
    return (None if mean is None else 100 * mean), True
