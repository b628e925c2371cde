"""What a run trained on: the share of each task over time, and the uncertainty of its outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.reporting.curves import curve_of, table_of
from weft.reporting.page import Section, absent, code, figure, legend
from weft.reporting.pictures.frame import Box
from weft.reporting.pictures.lines import Line, line_chart
from weft.reporting.pictures.stacked import WIDE, stacked
from weft.reporting.run_data import RunData, numbers_of
from weft.reporting.tables import NONE, Table
from weft.utils.markup import Html, join, tag

BINS = 60
"""The most intervals of the picture of what MT-Uncertainty chose."""


@dataclass(frozen=True)
class Composition:
    """The share of each task's examples in consecutive intervals of steps.

    Attributes:
        tasks: the tasks, [T].
        starts: the first step of each interval, [N].
        stops: the step after the last one, [N].
        shares: the share of each task, from 0 to 1, [N][T].
        chosen: whether the model chose the examples (MT-Uncertainty).
    """

    tasks: tuple[str, ...]
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    shares: tuple[tuple[float, ...], ...]
    chosen: bool

    def mean(self) -> list[float]:
        """The share of each task over the whole run, with intervals weighted by their steps."""
        lengths = [stop - start for start, stop in zip(self.starts, self.stops, strict=True)]
        total = sum(lengths)
        return [
            sum(length * row[t] for length, row in zip(lengths, self.shares, strict=True)) / total
            for t in range(len(self.tasks))
        ]


def composition_of(run: RunData) -> Composition | None:
    """What a run trained on, by interval; None if its log does not say it.

    With MT-Uncertainty, the log has the examples of every step, and intervals are short. Else they lie
    between two evaluations.
    """
    tasks = tuple(run.tasks)
    if run.chosen and tasks:
        return _of_choices(run.chosen, tasks)
    starts, stops, shares = [], [], []
    before = 0
    for evaluation in run.evaluations:
        window = evaluation.facts.get("window")
        examples = numbers_of(window.get("examples")) if isinstance(window, dict) else {}
        counts = [examples.get(task, 0.0) for task in tasks]
        total = sum(count for count in counts if math.isfinite(count))
        if total > 0 and evaluation.step > before:
            starts.append(before)
            stops.append(evaluation.step)
            shares.append(tuple(count / total for count in counts))
        before = max(before, evaluation.step)
    if not shares:
        return None
    return Composition(tasks, tuple(starts), tuple(stops), tuple(shares), False)


def _of_choices(chosen: Sequence[tuple[int, Sequence[int]]], tasks: tuple[str, ...]) -> Composition | None:
    first, last = chosen[0][0], chosen[-1][0] + 1
    width = max(1, math.ceil((last - first) / BINS))
    counts: dict[int, list[int]] = {}
    for step, examples in chosen:
        row = counts.setdefault((step - first) // width, [0] * len(tasks))
        for task in examples:
            if 0 <= task < len(tasks):
                row[task] += 1
    bins = [(place, row) for place, row in sorted(counts.items()) if sum(row)]
    if not bins:
        return None
    starts = [first + place * width for place, _ in bins]
    return Composition(
        tasks,
        tuple(starts),
        tuple(min(start + width, last) for start in starts),
        tuple(tuple(n / sum(row) for n in row) for _, row in bins),
        True,
    )


def composition_picture(composition: Composition, key: str, box: Box = WIDE) -> tuple[Html, str]:
    """The stacked areas of a composition, and their description."""
    x = [edge for pair in zip(composition.starts, composition.stops, strict=True) for edge in pair]
    shares = [row for row in composition.shares for _ in range(2)]
    means = sorted(zip(composition.mean(), composition.tasks, strict=True), reverse=True)
    listed = ", ".join(f"{task} {100 * share:.1f} %" for share, task in means[:6])
    more = f" and {len(means) - 6} more tasks" if len(means) > 6 else ""
    who = "The examples that MT-Uncertainty chose" if composition.chosen else "The examples of each task"
    description = f"{who}, as shares of each interval. Over the whole run: {listed}{more}."
    picture = stacked(
        composition.tasks,
        x,
        shares,
        key=key,
        title="Share of each task over time",
        description=description,
        box=box,
    )
    return picture, description


def composition_table(composition: Composition) -> Table:
    """The numbers of a composition, one row per interval."""
    rows = [
        [f"{stop:,}", *(f"{100 * share:.1f}" for share in row)]
        for stop, row in zip(composition.stops, composition.shares, strict=True)
    ]
    return Table("Share of each task in percent, up to each step", ("step", *composition.tasks), rows)


def composition_section(run: RunData, key: str) -> Section:
    """The sampling composition over time, and how much of the data was used."""
    title = "Sampling over time"
    composition = composition_of(run)
    if composition is None:
        how = join(
            ["the log has no evaluation with counts of examples; set ", code("train.evaluate_every: 100")]
        )
        return Section(key, title, absent(title, how))
    picture, description = composition_picture(composition, f"{key}-0")
    table = composition_table(composition).html(hide_caption=True)
    # the topmost area first, as in the picture
    places = list(reversed(range(len(composition.tasks))))
    key_of = legend([composition.tasks[place] for place in places], places, filled=True)
    shown = figure("share of each task", picture, table, "wide fill", legend=key_of)
    return Section(key, title, join([tag("p", description), shown, _usage(run)]))


def _usage(run: RunData) -> Html | None:
    usage = run.evaluations[-1].facts.get("usage") if run.evaluations else None
    if not isinstance(usage, dict):
        return None
    used, longest = numbers_of(usage.get("by_task")), numbers_of(usage.get("longest"))
    rows = [
        [
            task,
            f"{100 * used[task]:.1f}" if task in used else NONE,
            f"{longest[task]:,.0f}" if task in longest else NONE,
        ]
        for task in run.tasks
    ]
    columns = ("task", "training rows used, %", "longest gap in steps")
    notes = ["The longest gap: the most consecutive steps without an example of the task."]
    return Table("Use of the training data", columns, rows, notes=notes).html()


def entropy_section(run: RunData, key: str) -> Section:
    """The mean predictive entropy of each task over time."""
    title = "Uncertainty over time"
    lines = run.events.get("uncertainty", ())
    entropy = {
        line["step"]: numbers_of(line.get("entropy")) for line in lines if isinstance(line.get("step"), int)
    }
    tasks = [task for task in run.tasks if any(task in values for values in entropy.values())]
    if not tasks:
        how = join(["it is logged by ", code("train.measure_uncertainty: 100")])
        return Section(key, title, absent("Entropy of each task's outputs", how))
    curves = {
        task: curve_of([{step: values[task] for step, values in entropy.items() if task in values}])
        for task in tasks
    }
    drawn = [Line(name, c.steps, c.middle, number=run.tasks.index(name)) for name, c in curves.items()]
    last = ", ".join(f"{name} {c.middle[-1]:.2f}" for name, c in curves.items() if c.middle)
    description = (
        "Mean entropy of the outputs on training examples: 1 is a guess among all labels, 0 is certainty. "
        f"Last: {last}."
    )
    picture = line_chart(
        drawn,
        key=f"{key}-0",
        title="Entropy of each task's outputs",
        description=description,
        y_name="normalized entropy",
        box=WIDE,
    )
    table = table_of("Entropy by step", curves, digits=3).html(hide_caption=True)
    key_of = legend(list(curves), [run.tasks.index(name) for name in curves])
    shown = figure("entropy of each task", picture, table, "wide fill", legend=key_of)
    return Section(key, title, join([tag("p", description), shown]))
