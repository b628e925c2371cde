"""Chosen settings, measures, and every run of a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from weft.experiments.measures import MEASURES, on_pages
from weft.experiments.tables import chosen
from weft.experiments.tuning import average_of
from weft.reporting.comparison_data import ComparisonData, mean_of
from weft.reporting.page import Section
from weft.reporting.tables import NONE, Cell, Table
from weft.utils.markup import join, tag

RATES = ("examples_per_second",)
"""Measures that every page shows."""


def settings_section(data: ComparisonData, key: str) -> Section | None:
    """What `tune` has chosen for each variant, what it has tried, and the settings in which runs differ."""
    parts: list[object] = []
    tuned = list(dict.fromkeys(name for facts in data.variants.values() for name in facts["chosen"]))
    if tuned:
        rows = [
            [name, *(chosen(facts, setting) for setting in tuned)] for name, facts in data.variants.items()
        ]
        notes = ["* at the edge of what was tried: a better value may lie beyond."]
        columns = ("variant", *tuned)
        table = Table("Values that tune has chosen", columns, rows, texts=range(1, len(columns)), notes=notes)
        parts += [table.html(), _tried(data, tuned)]
    differing = _differing(data)
    if differing is not None:
        parts.append(differing.html())
    return Section(key, "Chosen settings", join(parts)) if parts else None


def _tried(data: ComparisonData, tuned: list[str]) -> object:
    rows = [
        [
            name,
            *(str(trial["values"].get(setting, NONE)) for setting in tuned),
            f"{100 * trial['average']:.2f}",
        ]
        for name, facts in data.variants.items()
        for trial in facts.get("tried", ())
    ]
    if not rows:
        return None
    columns = ("variant", *tuned, "average on the half that chooses")
    table = Table("Values that were tried", columns, rows, texts=range(1, len(tuned) + 1))
    return tag("details", tag("summary", f"All {len(rows)} values that were tried"), table.html())


def _differing(data: ComparisonData) -> Table | None:
    """The settings of the runs' files in which variants differ.

    Absent, null, false and empty mean the same: files of different versions have different keys.
    """
    settings = {
        name: _flat(record.settings) for name in data.names if (record := data.first(name)) is not None
    }
    keys = list(dict.fromkeys(key for values in settings.values() for key in values))
    rare = [
        key
        for key in keys
        if key != "train.seed" and len({_set(values.get(key)) for values in settings.values()}) > 1
    ]
    if not rare:
        return None
    rows = [
        [name, "; ".join(f"{key}: {_plain(values[key])}" for key in rare if key in values)]
        for name, values in settings.items()
    ]
    return Table("Settings in which variants differ", ("variant", "settings"), rows, long=(1,))


def _set(value: Any) -> str:
    return NONE if value is None or value is False or value in ([], {}, "") else str(value)


def _plain(value: Any) -> str:
    """A value about as a run file has it."""
    if isinstance(value, list):
        return ", ".join(map(_plain, value)) or "[]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as keys with dots."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict) and value:
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def runs_section(data: ComparisonData, key: str) -> Section | None:
    """Every run: its average, the step that was kept, seconds and machine; and measures, if there are any."""
    parts: list[object] = []
    measures = _measures(data)
    if measures is not None:
        parts.append(measures.html())
    rows: list[list[object]] = []
    for variant, seeds in data.records.items():
        for seed, record in seeds.items():
            average = average_of(data.average, record.metrics, data.tasks) if record.metrics else None
            step = record.step
            rows.append(
                [
                    variant,
                    seed,
                    NONE if average is None or not math.isfinite(average) else f"{100 * average:.2f}",
                    f"{step:,}" if isinstance(step, int) else NONE if step is None else "one per task",
                    f"{record.seconds['train']:,.0f}" if "train" in record.seconds else NONE,
                    _machine(record.machine),
                ]
            )
    if rows:
        columns = ("variant", "seed", data.average, "kept step", "seconds", "machine")
        table = Table("Every run", columns, rows, texts=(5,), cards=True)
        parts.append(tag("details", tag("summary", f"All {len(rows)} runs"), table.html()))
    return Section(key, "Runs", join(parts)) if parts else None


def _machine(machine: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in machine.items() if value is not None)


def _measured(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _measures(data: ComparisonData) -> Table | None:
    """The mean over seeds of the measures that the grid lists; of values per task, their mean."""
    # tables of an earlier version do not say what the grid lists: then all are shown
    wanted = data.results.get("measures", list(MEASURES))
    values: dict[str, dict[str, float]] = {}
    for variant, seeds in data.records.items():
        by_name: dict[str, list[float]] = {}
        for record in seeds.values():
            for name, value in record.measures.items():
                if not (name in RATES or on_pages(name, wanted)):
                    continue
                numbers = list(value.values()) if isinstance(value, dict) else [value]
                plain = [float(x) for x in numbers if isinstance(x, int | float) and not isinstance(x, bool)]
                mean = mean_of(plain)
                if mean is not None:
                    by_name.setdefault(name, []).append(mean)
        values[variant] = {name: sum(of) / len(of) for name, of in by_name.items()}
    names = list(dict.fromkeys(name for of in values.values() for name in of))
    if not names:
        return None
    rows = [
        [variant, *(Cell(_measured(of[name]), of[name]) if name in of else NONE for name in names)]
        for variant, of in values.items()
    ]
    return Table("Measures, mean over seeds", ("variant", *(n.replace("_", " ") for n in names)), rows)
