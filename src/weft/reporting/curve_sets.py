"""Curves of several series on the same tasks: the runs of a page, or the variants of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.reporting.comparison_data import ComparisonData
from weft.reporting.curves import Curve, curve_of, table_of
from weft.reporting.page import figure, switches
from weft.reporting.pictures.lines import Line, line_chart
from weft.reporting.run_data import RunData, number
from weft.utils.markup import Html

AVERAGE = ""
"""Stands for the average in place of a task."""


@dataclass(frozen=True)
class CurveSet:
    """Curves by task and series.

    Attributes:
        curves: task → series → curve, in points; `AVERAGE` is the first task. Curves without points are left
            out, and tasks without curves.
        looks: the number of each series' color and pattern.
        shown: the series that are drawn in color at first.
        kept: the step of the weights that were kept, by series and task, where it is known.
        average: the name of the average.
    """

    curves: Mapping[str, Mapping[str, Curve]]
    looks: Mapping[str, int]
    shown: Sequence[str]
    kept: Mapping[tuple[str, str], int] = field(default_factory=dict)
    average: str = "average"

    @property
    def names(self) -> list[str]:
        """The series that have a curve, in the order of their looks."""
        return [name for name in self.looks if any(name in of for of in self.curves.values())]

    def title(self, task: str) -> str:
        """A task's name, or that of the average."""
        return task or self.average

    def lines(self, task: str) -> list[Line]:
        """The lines of a task's chart."""
        return [
            Line(
                name,
                curve.steps,
                curve.middle,
                curve.low if max(curve.seeds) > 1 else None,
                curve.high if max(curve.seeds) > 1 else None,
                number=self.looks[name],
                shown=name in self.shown,
                marked=self.kept.get((name, task)),
            )
            for name, curve in self.curves[task].items()
        ]

    def describe(self, task: str) -> str:
        """A task's curves in words."""
        last = {name: curve.middle[-1] for name, curve in self.curves[task].items()}
        if len(last) <= 4:
            return "; ".join(f"{name}: last {value:.1f}" for name, value in last.items()) + "."
        best = max(last, key=lambda name: last[name])
        return f"{len(last)} series; last medians from {min(last.values()):.1f} to {last[best]:.1f} ({best})."

    def chart(self, task: str, key: str) -> Html:
        """The line chart of a task."""
        return line_chart(
            self.lines(task),
            key=key,
            title=f"Learning curves: {self.title(task)}",
            description=self.describe(task),
            y_name="score in percent",
        )

    def figures(self, key: str) -> list[Html]:
        """One figure per task, with the table of its numbers."""
        shown = []
        for place, (task, curves) in enumerate(self.curves.items()):
            whole = all(curve.whole for curve in curves.values())
            notes = [self.describe(task)] + ([] if whole else ["Some steps have values of some seeds only."])
            seeds = max(max(curve.seeds) for curve in curves.values())
            what = "Median (lowest to highest seed)" if seeds > 1 else "Scores"
            table = table_of(f"{what}: {self.title(task)}", curves).html(hide_caption=True)
            shown.append(figure(self.title(task), self.chart(task, f"{key}-{place}"), table, "fill", notes))
        return shown

    def switches(self) -> Html:
        """The legend: a box per series, which colors its lines in all charts of the section."""
        return switches(self.names, [self.looks[name] for name in self.names], self.shown)

    def as_dict(self) -> dict[str, Any]:
        """All numbers as JSON values: task → series → the lists of a curve; `average` is the average."""
        return {
            self.title(task): {
                name: {
                    "steps": list(curve.steps),
                    "median": list(curve.middle),
                    "low": list(curve.low),
                    "high": list(curve.high),
                    "seeds": list(curve.seeds),
                    "kept": self.kept.get((name, task)),
                }
                for name, curve in curves.items()
            }
            for task, curves in self.curves.items()
        }


def curves_of_runs(runs: Sequence[RunData]) -> CurveSet:
    """The curves of several runs, one series each."""
    names = names_of(runs)
    tasks = list(dict.fromkeys(task for run in runs for task in run.tasks))
    by_name = dict(zip(names, runs, strict=True))
    curves = {
        task: {name: curve for name, run in by_name.items() if (curve := run_curve(run, task)).steps}
        for task in (AVERAGE, *tasks)
    }
    kept: dict[tuple[str, str], int] = {}
    for name, run in by_name.items():
        for task in (AVERAGE, *tasks):
            step = run.metrics.get("step") if task == AVERAGE else run.kept_step(task)
            if isinstance(step, int):
                kept[name, task] = step
    looks = {name: place for place, name in enumerate(names)}
    return CurveSet({task: of for task, of in curves.items() if of}, looks, names, kept)


def run_curve(run: RunData, task: str) -> Curve:
    """The curve of a run's task, or of its average, in points."""
    if task == AVERAGE:
        return curve_of([{e.step: 100 * number(e.facts.get("average")) for e in run.evaluations}])
    return curve_of([{e.step: 100 * e.score(task) for e in run.evaluations}])


def curves_of_comparison(data: ComparisonData) -> CurveSet:
    """The curves of a comparison: the median and the range over the seeds of each variant."""
    curves = {
        task: {name: curve for name in data.names if (curve := variant_curve(data, name, task)).steps}
        for task in (AVERAGE, *data.tasks)
    }
    with_curves = {task: of for task, of in curves.items() if of}
    return CurveSet(with_curves, data.looks, data.shown_first, average=data.average)


def variant_curve(data: ComparisonData, variant: str, task: str) -> Curve:
    """The curve of a variant on a task, or of its average."""
    return curve_of([of_seed.get(task, {}) for of_seed in data.points.get(variant, {}).values()])


def names_of(runs: Sequence[RunData]) -> list[str]:
    """A name for each run: that of its folder, or its path where two are equal."""
    short = [run.name for run in runs]
    return [
        name if short.count(name) == 1 else str(run.folder) for name, run in zip(short, runs, strict=True)
    ]
