"""Several runs side by side: their scores, and their learning curves in the same charts."""

from __future__ import annotations

from collections.abc import Sequence

from weft.evaluation.scores import main_score
from weft.reporting.curve_sets import curves_of_runs, names_of
from weft.reporting.page import Section, absent
from weft.reporting.run_data import RunData, number
from weft.reporting.tables import NONE, Table
from weft.utils.markup import join, tag


def together_section(runs: Sequence[RunData], key: str = "together") -> Section:
    """The scores and the curves of several runs."""
    tasks = list(dict.fromkeys(task for run in runs for task in run.tasks))
    rows = []
    for name, run in zip(names_of(runs), runs, strict=True):
        metrics = run.metrics.get("tasks")
        metrics = metrics if isinstance(metrics, dict) else {}
        scores = [f"{100 * main_score(metrics[task]):.1f}" if metrics.get(task) else NONE for task in tasks]
        average = number(run.metrics.get("average"))
        rows.append([name, f"{100 * average:.1f}" if average == average else NONE, *scores])
    notes = [
        "One run each: a difference may be luck. weft compare trains several seeds and says which are not."
    ]
    table = Table("Scores in percent on the validation rows", ("run", "average", *tasks), rows, notes=notes)
    curves = curves_of_runs(runs)
    parts: list[object] = [table.html()]
    if curves.curves:
        parts += [curves.switches(), tag("div", *curves.figures(key), class_="charts")]
    else:
        parts.append(absent("Learning curves", "no run was evaluated while it trained: train.evaluate_every"))
    return Section(key, "All runs", join(parts))
