"""The first section of a run: its scores beside baselines, what was kept, and what happened."""

from __future__ import annotations

from typing import Any

from weft.evaluation.scores import shown_metric
from weft.reporting.page import Section, cards
from weft.reporting.run_data import RunData, numbers_of
from weft.reporting.tables import NONE, Cell, Table
from weft.utils.markup import Html, join, tag

HAPPENED = ("resume", "stop", "interrupted", "diverged", "engine")
"""The events of a log that a reader should know of."""


def summary_section(run: RunData, key: str) -> Section:
    """The scores of a run."""
    parts: list[object] = [cards(_cards(run))]
    if not run.metrics:
        parts.append(
            tag("p", f"This run has not ended: {run.folder}/metrics.json is missing.", class_="warn")
        )
    else:
        parts.append(_scores(run))
    happened = _happened(run)
    if happened:
        parts.append(Table("What happened", ("event", "step", "details"), happened, long=(2,)).html())
    if run.skipped:
        parts.append(
            tag("p", f"{run.skipped} lines of the log could not be read, and were skipped.", class_="warn")
        )
    return Section(key, "Scores", join(parts))


def _cards(run: RunData) -> list[tuple[str, object]]:
    metrics, sampler, method = run.metrics, run.train.get("sampler"), run.settings.get("method")
    facts: list[tuple[str, object]] = []
    if isinstance(metrics.get("average"), float | int):
        facts.append(("average score", f"{100 * metrics['average']:.1f}"))
    facts.append(("method", _named(method)))
    facts.append(("sampler", _named(sampler)))
    facts.append(("tasks", len(run.tasks)))
    steps = run.last("end").get("step") or (run.evaluations[-1].step if run.evaluations else None)
    planned = run.train.get("steps")
    if steps is not None:
        of = f" of {planned:,}" if isinstance(planned, int) and planned != steps else ""
        facts.append(("steps", f"{steps:,}{of}"))
    kept = metrics.get("step")
    if isinstance(kept, int):
        facts.append(("step that was kept", f"{kept:,}"))
    elif isinstance(kept, dict):
        facts.append(("step that was kept", "one per task"))
    if isinstance(metrics.get("seconds"), int | float):
        facts.append(("seconds of training", f"{metrics['seconds']:,.0f}"))
    if isinstance(metrics.get("data_used"), int | float):
        facts.append(("data used", f"{100 * metrics['data_used']:.0f} %"))
    return facts


def _named(settings: Any) -> str:
    name = settings.get("use") if isinstance(settings, dict) else settings
    if isinstance(name, list):
        return " + ".join(map(_named, name))
    return NONE if name is None else str(name)


def _scores(run: RunData) -> Html:
    """The metrics of each task beside those of baselines, and on the test split if it was evaluated."""
    metrics = run.metrics
    baselines = metrics.get("baselines")
    baselines = baselines if isinstance(baselines, dict) else {}
    test = run.test.get("tasks")
    test = test if isinstance(test, dict) else {}
    stops = numbers_of(metrics.get("stops"))
    columns = [
        "task",
        "metric",
        "rows",
        *baselines,
        "this run",
        *(["test split"] if test else []),
        "kept step",
    ]
    columns += ["stopped at step"] if stops else []
    rows: list[list[object]] = []
    for task, of_task in metrics["tasks"].items():
        for place, (metric, value) in enumerate(of_task.items()):
            peers = [_value(metric, peer.get(task, {}).get(metric)) for peer in baselines.values()]
            better = all(
                isinstance(peer.get(task, {}).get(metric), int | float) and value > peer[task][metric]
                for peer in baselines.values()
            )
            kept = run.kept_step(task)
            row: list[object] = [
                task,
                metric,
                _count(metrics, task) if place == 0 else "",
                *peers,
                Cell(_value(metric, value), class_="best" if baselines and better else None),
            ]
            if test:
                row.append(_value(metric, test.get(task, {}).get(metric)))
            row.append(NONE if kept is None else f"{kept:,}")
            if stops:
                row.append(f"{stops[task]:,.0f}" if task in stops else NONE)
            rows.append(row)
    notes = ["Scores in percent; errors such as mse are unscaled."]
    if baselines:
        notes.append("Bold: better than every baseline, which read no encoder.")
    if not test:
        notes.append(f"The test split was not evaluated; to do so: weft evaluate {run.folder} --split test")
    split = metrics.get("split", "validation")
    return Table(f"Scores on the {split} rows", columns, rows, texts=(1,), notes=notes).html()


def _value(metric: str, value: Any) -> str:
    return shown_metric(metric, value if isinstance(value, int | float) else None)


def _count(metrics: Any, task: str) -> str:
    rows, of = metrics.get("rows", {}).get(task), metrics.get("of", {}).get(task)
    if rows is None:
        return NONE
    return f"{rows:,}" if of in (None, rows) else f"{rows:,} of {of:,}"


def _happened(run: RunData) -> list[list[object]]:
    rows: list[list[object]] = []
    for event in HAPPENED:
        for line in run.events.get(event, ()):
            facts = {k: v for k, v in line.items() if k not in ("event", "time", "step")}
            details = "; ".join(f"{k}: {v}" for k, v in facts.items())
            rows.append([event, f"{line.get('step', 0):,}", details])
    return rows
