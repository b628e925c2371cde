"""Several runs side by side: their scores, and their learning curves in the same charts."""

from __future__ import annotations

from collections.abc import Sequence

from weft.evaluation.scores import main_score
from weft.reporting.comparison.curves import switches
from weft.reporting.curves import Curve, curve_of, table_of
from weft.reporting.page import Section, absent, figure
from weft.reporting.pictures.lines import Line, line_chart
from weft.reporting.run_data import RunData, number
from weft.reporting.tables import NONE, Table
from weft.utils.markup import Html, join, tag


def names_of(runs: Sequence[RunData]) -> list[str]:
    """A name for each run: that of its folder, or its path where two are equal."""
    short = [run.name for run in runs]
    return [
        name if short.count(name) == 1 else str(run.folder) for name, run in zip(short, runs, strict=True)
    ]


def all_tasks(runs: Sequence[RunData]) -> list[str]:
    """The tasks of all runs, each once."""
    return list(dict.fromkeys(task for run in runs for task in run.tasks))


def together_sections(runs: Sequence[RunData]) -> list[Section]:
    """The scores and the curves of several runs."""
    names, tasks = names_of(runs), all_tasks(runs)
    rows = []
    for name, run in zip(names, runs, strict=True):
        metrics = run.metrics.get("tasks")
        metrics = metrics if isinstance(metrics, dict) else {}
        scores = [f"{100 * main_score(metrics[task]):.1f}" if metrics.get(task) else NONE for task in tasks]
        average = number(run.metrics.get("average"))
        rows.append([name, f"{100 * average:.1f}" if average == average else NONE, *scores])
    notes = [
        "One run each: a difference may be luck. weft compare trains several seeds and says which are not."
    ]
    table = Table("Scores in percent on the validation rows", ("run", "average", *tasks), rows, notes=notes)
    parts: list[object] = [table.html()]
    figures = [
        together_chart(runs, names, task, f"together-{place}") for place, task in enumerate(["", *tasks])
    ]
    drawn = [shown for shown in figures if shown is not None]
    if drawn:
        parts += [switches(names, names, names), tag("div", *drawn, class_="charts")]
    else:
        parts.append(absent("Learning curves", "no run was evaluated while it trained: train.evaluate_every"))
    return [Section("together", "All runs", join(parts))]


def run_curve(run: RunData, task: str) -> Curve:
    """The curve of a run's task, or of its average (""), in points."""
    if not task:
        return curve_of([{e.step: 100 * number(e.facts.get("average")) for e in run.evaluations}])
    return curve_of([{e.step: 100 * e.score(task) for e in run.evaluations}])


def together_chart(runs: Sequence[RunData], names: Sequence[str], task: str, key: str) -> Html | None:
    """The curves of one task of several runs, with the step that each has kept; None: there are none."""
    lines, curves = [], {}
    for place, (name, run) in enumerate(zip(names, runs, strict=True)):
        curve = run_curve(run, task)
        if curve.steps:
            curves[name] = curve
            kept = run.metrics.get("step") if not task else run.kept_step(task)
            marked = kept if isinstance(kept, int) else None
            lines.append(Line(name, curve.steps, curve.middle, number=place, marked=marked))
    if not lines:
        return None
    title = task or "average"
    description = "; ".join(f"{name}: last {curve.middle[-1]:.1f}" for name, curve in curves.items())
    picture = line_chart(
        lines, key=key, title=f"Learning curves: {title}", description=description, y_name="score in percent"
    )
    return figure(title, picture, table_of(f"Scores: {title}", curves).html(hide_caption=True), "fill")
