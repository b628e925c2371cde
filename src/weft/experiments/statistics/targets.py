"""Targets: the numbers that a table compares, each a weighted sum of metrics of evaluated sets.

A task's score is its first metric (`weft.evaluation.scores.main_score`; an error counts as 1 − error). An
average is the mean of the tasks' scores, or one of `weft.evaluation.averages.AVERAGES`. All of them are
linear in the metrics:

    target = constant + Σ_k coefficient_k · metric_k

so the covariance that comes from the rows of different sets is the sum of the sets' covariances.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.errors import WeftError, did_you_mean
from weft.evaluation.averages import AVERAGES
from weft.evaluation.rows import RunRows
from weft.evaluation.selection import AVERAGE
from weft.metrics import is_error
from weft.tasks.task import ALSO

__all__ = ["AVERAGE", "Target", "Term", "average_target", "task_targets"]


@dataclass(frozen=True)
class Term:
    """One metric of one evaluated set, with its factor in a target.

    Attributes:
        set: the set: `TASK` or `TASK:SET`.
        metric: the metric, without the name of the set.
        coefficient: its factor.
    """

    set: str
    metric: str
    coefficient: float


@dataclass(frozen=True)
class Target:
    """A number that is compared; the larger the better.

    Attributes:
        name: the task, or the name of the average.
        terms: the metrics that it is made of.
        constant: what is added.
    """

    name: str
    terms: tuple[Term, ...]
    constant: float = 0.0

    def value(self, run: RunRows) -> float | None:
        """The value of a run; None if the run lacks one of the metrics."""
        total = self.constant
        for term in self.terms:
            rows = run.sets.get(term.set)
            if rows is None or term.metric not in rows.scores:
                return None
            total += term.coefficient * rows.scores[term.metric]
        return total


def task_targets(runs: Iterable[RunRows]) -> list[Target]:
    """Return the score of each task that some run has: its first metric."""
    places: dict[str, tuple[str, str]] = {}
    for run in runs:
        for name, rows in run.sets.items():
            if rows.scores:
                places.setdefault(name.partition(ALSO)[0], (name, next(iter(rows.scores))))
    return [
        Target(task, (Term(name, metric, -1.0 if is_error(metric) else 1.0),), float(is_error(metric)))
        for task, (name, metric) in places.items()
    ]


def average_target(name: str, runs: Iterable[RunRows]) -> Target:
    """Return an average.

    Args:
        name: `average`, the mean of the tasks' scores; one of `AVERAGES`; or a task, whose score it is then.
        runs: the runs; together they must have all metrics of the average.
    """
    runs = list(runs)
    if name == AVERAGE:
        tasks = task_targets(runs)
        if not tasks:
            raise WeftError("no run has a task: there is nothing to average")
        share = 1 / len(tasks)
        terms = [
            Term(term.set, term.metric, share * term.coefficient) for task in tasks for term in task.terms
        ]
        return Target(name, tuple(terms), sum(task.constant for task in tasks) * share)
    if name not in AVERAGES:
        tasks = {task.name: task for task in task_targets(runs)}
        if name in tasks:
            return tasks[name]
        known = (AVERAGE, *AVERAGES, *tasks)
        raise WeftError(f"average {name!r} is neither an average nor a task; {did_you_mean(name, known)}")
    places: dict[str, dict[str, tuple[str, str]]] = {}
    for run in runs:
        for set_name, rows in run.sets.items():
            task, _, further = set_name.partition(ALSO)
            suffix = f"_{further}" if further else ""
            places.setdefault(task, {}).update({f"{m}{suffix}": (set_name, m) for m in rows.scores})
    parts = AVERAGES[name]
    terms, missing = [], []
    for part in parts:
        known = places.get(part.task_in(places), {})
        if all(metric in known for metric in part.metrics):
            share = 1 / len(parts) / len(part.metrics)
            terms += [Term(*known[metric], share) for metric in part.metrics]
        else:
            missing.append(part.name)
    if missing:
        raise WeftError(
            f"average {name!r} needs {len(parts)} values; the runs do not have {', '.join(missing)}: "
            f"add these tasks, or choose the average {AVERAGE!r}"
        )
    return Target(name, tuple(terms))
