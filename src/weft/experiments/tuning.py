"""Choosing tuned values: for each variant those whose trials have the highest average on validation.

With `tune`, every task's validation rows are halved (`tasks.halves`). Trials are compared on one half, and
tables report the other, so that a choice among many values does not make a variant look better than it is.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING

from weft.evaluation.averages import AVERAGES, average
from weft.evaluation.scores import main_score
from weft.evaluation.selection import AVERAGE
from weft.experiments.cells import trials_of, tuned_axes, variants_of
from weft.experiments.grid import Axis, Grid
from weft.experiments.records import Record

if TYPE_CHECKING:
    from weft.experiments.plan import Plan


@dataclass(frozen=True)
class Choice:
    """The tuned values of one variant.

    Attributes:
        labels: the chosen label of each tuned key.
        scores: the average of each combination of labels, over the trials' seeds, from 0 to 1.
        edges: the keys whose chosen value is the first or the last of the values tried: a better one may lie
            beyond.
    """

    labels: dict[str, str]
    scores: dict[tuple[str, ...], float]
    edges: tuple[str, ...]


def choices_of(plan: Plan, unfinished: Container[str] = ()) -> dict[str, Choice]:
    """The tuned values of each variant, by the trials that have a record; {} without `tune`.

    Args:
        plan: the plan.
        unfinished: variants that are left out, because some of their trials are still to run.
    """
    if plan.grid.tune is None:
        return {}
    trials = {
        (planned.cell.variant, tuple(planned.cell.tuned.values()), planned.cell.seed): planned.record
        for planned in plan.cells.values()
        if planned.cell.trial and planned.cell.variant not in unfinished
    }
    return choose(plan.grid, trials)


def choose(grid: Grid, trials: Mapping[tuple[str, tuple[str, ...], int], Record | None]) -> dict[str, Choice]:
    """Choose the values of each variant whose trials are all done.

    A combination with a failed trial is not chosen; a variant all of whose combinations failed is left out.

    Args:
        grid: the grid.
        trials: by variant, labels of the tuned keys and seed, the record; None: it failed.
    """
    assert grid.tune is not None
    seeds = grid.seeds[: grid.tune.seeds]
    choices: dict[str, Choice] = {}
    for variant in variants_of(grid):
        scores: dict[tuple[str, ...], float] = {}
        for labels in trials_of(grid, variant):
            key = tuple(labels.values())
            records = [trials.get((variant.name, key, seed)) for seed in seeds]
            done = [record for record in records if record is not None]
            if len(done) == len(seeds):
                scores[key] = fsum(_score(grid, record) for record in done) / len(done)
        if scores:
            best = max(scores, key=lambda key: (scores[key], key))
            labels = dict(zip((axis.key for axis in grid.tune.over), best, strict=True))
            choices[variant.name] = Choice(labels, scores, _edges(tuned_axes(grid, variant), labels))
    return choices


def _score(grid: Grid, record: Record) -> float:
    tasks = record.chosen_by if record.chosen_by is not None else record.metrics
    return average_of(grid.average, tasks) or 0.0


def average_of(
    name: str, tasks: Mapping[str, Mapping[str, float]], every: Collection[str] = ()
) -> float | None:
    """The average of a run: the mean of its tasks' scores, or one that papers report; None: there is none.

    Args:
        name: `average`, the mean of the tasks' scores; one of `AVERAGES`, of which the values that are there
            count; or a task.
        tasks: the metrics of each task.
        every: the tasks of all runs that are compared. A run without one that counts has no average: it would
            be that of other tasks.
    """
    if name not in AVERAGES and name != AVERAGE:
        return main_score(tasks[name]) if name in tasks else None
    if not _counted(name, every) <= tasks.keys():
        return None
    if name in AVERAGES:
        return average(name, tasks).partial
    return fsum(main_score(metrics) for metrics in tasks.values()) / len(tasks)


def _counted(name: str, every: Collection[str]) -> set[str]:
    """The tasks that an average is about, among those that are compared."""
    return set(every) & {part.task_in(every) for part in AVERAGES[name]} if name in AVERAGES else set(every)


def _edges(axes: Sequence[Axis], labels: Mapping[str, str]) -> tuple[str, ...]:
    """The keys whose chosen value is at an end of its values; of numbers the smallest and the largest."""
    edges = []
    for axis in axes:
        values = dict(axis.values)
        if len(values) < 2:
            continue
        order = list(values)
        if all(isinstance(value, int | float) for value in values.values()):
            order.sort(key=lambda label: values[label])
        if labels[axis.key] in (order[0], order[-1]):
            edges.append(axis.key)
    return tuple(edges)
