"""What happened between evaluations: the share of each task, and the entropy of its outputs, by variant.

Figures 3.8 and 3.5 of the CA-MTL thesis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.reporting.comparison.first_few import first_few
from weft.reporting.comparison_data import ComparisonData
from weft.reporting.curves import Curve, table_of
from weft.reporting.page import Section, figure, switches
from weft.reporting.pictures.lines import Line, line_chart
from weft.reporting.trace_data import Entries, entries_of, mean_curves, share_curves
from weft.utils.markup import Html, join, tag

Curves = Mapping[str, Curve]
"""A curve of each task."""
LISTED = 8
"""The most tasks that a description has numbers of."""
NAMED = 3
"""Up to this many variants with one picture are named above it."""


def sampling_section(data: ComparisonData, key: str) -> Section | None:
    """The share of each task among the examples that a variant was trained on, over time."""
    curves = _curves(data, "examples", share_curves, 100.0)
    if not curves:
        return None
    text = (
        "The share of each task among the examples trained on since the point before: the mean over seeds, "
        "and a band from the lowest to the highest seed. Variants that were trained on the same have one "
        "picture."
    )
    section = _section(data, key, text, curves, "Share of each task", "share in percent", 1)
    return Section(key, "Sampling over time", section)


def entropy_section(data: ComparisonData, key: str) -> Section | None:
    """The mean entropy of each task's outputs over time."""
    curves = _curves(data, "entropy", mean_curves)
    if not curves:
        return None
    text = (
        "The mean entropy of the outputs on training examples: 1 is a guess among all labels, 0 is "
        "certainty. The line is the mean over seeds, the band reaches from the lowest to the highest seed."
    )
    section = _section(data, key, text, curves, "Entropy of each task", "normalized entropy", 2)
    return Section(key, "Uncertainty over time", section)


def _curves(
    data: ComparisonData,
    field: str,
    curves_of: Callable[[Sequence[Entries]], dict[str, Curve]],
    scale: float = 1.0,
) -> dict[str, dict[str, Curve]]:
    """The curves of each variant that has some, tasks in the order of the grid."""
    found = {}
    for name in data.names:
        entries = [entries_of(record, field) for record in data.records.get(name, {}).values()]
        curves = curves_of([of for of in entries if of])
        if curves:
            order = [*(t for t in data.tasks if t in curves), *(t for t in curves if t not in data.tasks)]
            found[name] = {task: _scaled(curves[task], scale) for task in order}
    return found


def _scaled(curve: Curve, scale: float) -> Curve:
    rows = ([scale * value for value in row] for row in (curve.middle, curve.low, curve.high))
    middle, low, high = map(tuple, rows)
    return Curve(curve.steps, middle, low, high, curve.seeds)


def _section(
    data: ComparisonData,
    key: str,
    text: str,
    curves: Mapping[str, Curves],
    what: str,
    y_name: str,
    digits: int,
) -> Html:
    tasks = list(dict.fromkeys(task for of in curves.values() for task in of))
    numbers = {task: place for place, task in enumerate(tasks)}
    top = max(value for of in curves.values() for curve in of.values() for value in curve.high)
    same: list[list[str]] = []
    for name, of in curves.items():
        group = next((group for group in same if curves[group[0]] == of), None)
        if group is None:
            same.append([name])
        else:
            group.append(name)
    figures = {}
    for place, group in enumerate(same):
        of = curves[group[0]]
        description = _described(of, digits)
        picture = line_chart(
            [
                Line(
                    task,
                    curve.steps,
                    curve.middle,
                    curve.low if max(curve.seeds) > 1 else None,
                    curve.high if max(curve.seeds) > 1 else None,
                    number=numbers[task],
                )
                for task, curve in of.items()
            ],
            key=f"{key}-{place}",
            title=f"{what}: {_named(group)}",
            description=description,
            y_name=y_name,
            y_limits=(0.0, 1.04 * top or 1.0),
        )
        table = table_of(f"{what}, {_named(group)}: mean (lowest to highest seed)", of, digits)
        first = data.foremost(group, 1)[0]  # stands for all of them when the best are chosen
        figures[first] = figure(_named(group), picture, table.html(hide_caption=True), "fill", [description])
    boxes = switches(tasks, list(numbers.values()), tasks)
    return join([tag("p", text), boxes, first_few(data, figures)])


def _named(group: Sequence[str]) -> str:
    more = len(group) - NAMED
    return ", ".join(group[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _described(curves: Curves, digits: int) -> str:
    """When each task is highest, in words; of a task that never changes, its value."""
    peaks, always = [], []
    for task, curve in list(curves.items())[:LISTED]:
        place = max(range(len(curve.steps)), key=lambda i: curve.middle[i])
        shown = f"{task} {curve.middle[place]:.{digits}f}"
        if curve.middle[place] - min(curve.middle) < 10**-digits and len(curve.steps) > 1:
            always.append(shown)
        else:
            peaks.append(f"{shown} at step {curve.steps[place]:,}")
    parts = [("Highest", peaks), ("All the time", always)]
    more = [f"{len(curves) - LISTED} more tasks are in the table."] if len(curves) > LISTED else []
    return " ".join([*(f"{words}: {', '.join(of)}." for words, of in parts if of), *more])
