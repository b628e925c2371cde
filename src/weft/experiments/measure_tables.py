"""The measures of a grid as tables: numbers of a run, values per task, and values per pair of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import fsum
from typing import TYPE_CHECKING, Any

from weft.experiments.measures import VALUES, Value, form_of, on_pages
from weft.experiments.measures.of_weights import TIMES
from weft.experiments.text_table import NONE, TextTable

if TYPE_CHECKING:
    from weft.experiments.records import Record
    from weft.experiments.results import Results


MOST_MATRICES = 3
"""Of how many variants a page prints matrices of tasks by tasks."""


def measured_means(records: Sequence[Record]) -> dict[str, Value]:
    """The mean over seeds of each measured value of a variant; of values per task, of each task.

    Args:
        records: the runs of the variant, one per seed.
    """
    means: dict[str, Value] = {}
    for name in VALUES:
        values = [record.measures[name] for record in records if name in record.measures]
        if not values:
            continue
        if isinstance(values[0], dict):
            keys = dict.fromkeys(key for value in values for key in value)
            means[name] = {key: _mean([value[key] for value in values if key in value]) for key in keys}
        else:
            means[name] = _mean(values)
    return means


def measure_tables(results: Results) -> list[TextTable]:
    """One table of all measures that are numbers, one per measure of tasks, one per variant with pairs."""
    wanted = [name for name in VALUES if on_pages(name, results.grid.measures)]
    measured = {variant: facts["measures"] for variant, facts in results.facts.items()}
    numbers = [name for name in wanted if any(isinstance(of.get(name), float) for of in measured.values())]
    tables = []
    if numbers:
        rows = tuple((v, *(_shown(of.get(name)) for name in numbers)) for v, of in measured.items())
        tables.append(TextTable("measures, means over seeds", ("variant", *map(_words, numbers)), rows))
    for name in wanted:
        per_task = {v: of[name] for v, of in measured.items() if isinstance(of.get(name), dict)}
        keys = list(dict.fromkeys(key for values in per_task.values() for key in values))
        if keys and form_of(name) == "pair":
            tables += _matrices(name, per_task)
        elif keys:
            rows = tuple((v, *(_shown(values.get(key)) for key in keys)) for v, values in per_task.items())
            tables.append(TextTable(f"{_words(name)} of each task", ("variant", *keys), rows))
    return tables


def _matrices(name: str, pairs: dict[str, dict[str, float]]) -> list[TextTable]:
    """The matrices of the first variants, and where those of the others are.

    Args:
        name: the name of the value.
        pairs: the values of each variant.
    """
    shown = list(pairs)[:MOST_MATRICES]
    tables = [_matrix(f"{_words(name)}: {variant}", pairs[variant]) for variant in shown]
    if len(pairs) > len(shown):
        others = len(pairs) - len(shown)
        what = "that of 1 other variant is" if others == 1 else f"those of {others} other variants are"
        note = (
            f"The page shows {len(shown)} variants; {what} in tables.json: variants, NAME, measures, {name}."
        )
        tables[-1] = replace(tables[-1], note=note)
    return tables


def _matrix(title: str, pairs: dict[str, float]) -> TextTable:
    """A symmetric table of tasks by tasks."""
    tasks = list(dict.fromkeys(task for key in pairs for task in key.split(TIMES)))
    both = {**pairs, **{TIMES.join(reversed(key.split(TIMES))): x for key, x in pairs.items()}}
    rows = tuple((a, *(_shown(both.get(f"{a}{TIMES}{b}"), 2) for b in tasks)) for a in tasks)
    return TextTable(title, ("task", *tasks), rows)


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _shown(value: Any, digits: int = 3) -> str:
    if not isinstance(value, float):
        return NONE
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}" if abs(value) >= 1 else f"{value:.{min(digits, 2)}f}"
