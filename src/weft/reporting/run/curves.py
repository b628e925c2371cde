"""Learning curves of a run: one chart per task, with the step that was kept; and training losses."""

from __future__ import annotations

import math

from weft.metrics import is_error
from weft.reporting.curves import Curve, curve_of, table_of
from weft.reporting.page import Section, absent, code, figure, legend
from weft.reporting.pictures.lines import Line, line_chart
from weft.reporting.pictures.stacked import WIDE
from weft.reporting.run_data import RunData, number, numbers_of
from weft.utils.markup import Html, join, tag


def curves_section(run: RunData, key: str) -> Section:
    """One chart per task: its metrics at every evaluation."""
    title = "Learning curves"
    if not run.evaluations:
        how = join(["the log has no evaluation; set ", code("train.evaluate_every: 100"), " in the run file"])
        return Section(key, title, absent("Learning curves", how))
    figures = [_task(run, task, f"{key}-{place}") for place, task in enumerate(run.tasks)]
    average = _average(run, f"{key}-average")
    kept = "The ring marks the step whose weights were kept." if run.metrics else ""
    rows = run.train.get("evaluate_rows")
    text = f"Scores at the evaluations during training, on {_rows(rows)} of each task. {kept}"
    return Section(key, title, join([tag("p", text), tag("div", average, *figures, class_="charts")]))


def _rows(rows: object) -> str:
    return f"at most {rows:,} validation rows" if isinstance(rows, int) else "the validation rows"


def _task(run: RunData, task: str, key: str) -> Html | None:
    metrics = list(
        dict.fromkeys(name for evaluation in run.evaluations for name in evaluation.tasks.get(task, {}))
    )
    if not metrics:
        return None
    curves = {
        name: curve_of([{e.step: _scaled(name, e.tasks.get(task, {}).get(name)) for e in run.evaluations}])
        for name in metrics
    }
    kept = run.kept_step(task)
    lines = [
        Line(name, curve.steps, curve.middle, number=place, marked=kept if place == 0 else None)
        for place, (name, curve) in enumerate(curves.items())
    ]
    description = _described(curves[metrics[0]], metrics[0], kept)
    picture = line_chart(
        lines,
        key=key,
        title=f"Learning curve of {task}",
        description=description,
        y_name=f"{metrics[0]}{'' if is_error(metrics[0]) else ', percent'}",
    )
    table = table_of(f"Metrics of {task} at each evaluation", curves).html(hide_caption=True)
    key_of = legend(metrics) if len(metrics) > 1 else None
    return figure(task, join([key_of, picture]), table, "fill", [description])


def _average(run: RunData, key: str) -> Html | None:
    points = {e.step: 100 * number(e.facts.get("average")) for e in run.evaluations}
    curve = curve_of([points])
    if not curve.steps:
        return None
    kept = run.metrics.get("step")
    line = Line(
        "average", curve.steps, curve.middle, number=0, marked=kept if isinstance(kept, int) else None
    )
    description = _described(curve, "average", kept if isinstance(kept, int) else None)
    picture = line_chart(
        [line], key=key, title="Average over the tasks", description=description, y_name="average score"
    )
    table = table_of("Average at each evaluation", {"average": curve}).html(hide_caption=True)
    return figure("average over the tasks", picture, table, "fill", [description])


def _scaled(metric: str, value: float | None) -> float:
    if value is None:
        return math.nan
    return value if is_error(metric) else 100 * value


def _described(curve: Curve, name: str, kept: int | None) -> str:
    if not curve.steps:
        return f"No value of {name} is a number."
    better = min if is_error(name) else max
    best = better(range(len(curve.steps)), key=lambda i: curve.middle[i])
    text = (
        f"{name}: first {curve.middle[0]:.1f}, best {curve.middle[best]:.1f} at step {curve.steps[best]:,}, "
        f"last {curve.middle[-1]:.1f} at step {curve.steps[-1]:,}"
    )
    return f"{text}; step {kept:,} was kept." if kept is not None else f"{text}."


def losses_section(run: RunData, key: str) -> Section:
    """The training loss of each task."""
    title = "Training losses"
    lines = run.events.get("step", ())
    losses = {
        line["step"]: numbers_of(line.get("loss")) for line in lines if isinstance(line.get("step"), int)
    }
    tasks = [task for task in run.tasks if any(task in loss for loss in losses.values())]
    if not tasks:
        how = join(["the log has no losses; ", code("train.log_every"), " says how often they are logged"])
        return Section(key, title, absent(title, how))
    curves = {
        task: curve_of([{step: loss[task] for step, loss in losses.items() if task in loss}])
        for task in tasks
    }
    drawn = [Line(name, c.steps, c.middle, number=place) for place, (name, c) in enumerate(curves.items())]
    last = ", ".join(f"{name} {c.middle[-1]:.3f}" for name, c in curves.items() if c.middle)
    description = f"Mean training loss of each task between two lines of the log. Last: {last}."
    picture = line_chart(
        drawn,
        key=f"{key}-0",
        title="Training loss of each task",
        description=description,
        y_name="mean loss",
        box=WIDE,
    )
    table = table_of("Training losses", curves, digits=3).html(hide_caption=True)
    shown = figure("loss of each task", picture, table, "wide fill", legend=legend(list(curves)))
    return Section(key, title, shown)
