"""The spread of scores over tasks, and the number of tasks at or above a reference (CA-MTL).

Task σ is the standard deviation of all reported metrics of all tasks (a task may have two), in percent:
σ = 100·√(Σ (x − x̄)² / (n − ddof)). Errors (mse) are not between 0 and 1 and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum, isnan, nan, sqrt
from typing import Any, NamedTuple

from weft.errors import WeftError, did_you_mean
from weft.evaluation.averages import AVERAGES
from weft.metrics import is_error

Metrics = Mapping[str, Mapping[str, float]]
"""Each task's metrics; the first of them is its main one."""


class Value(NamedTuple):
    """One reported metric of one task."""

    task: str
    metric: str
    value: float

    @property
    def name(self) -> str:
        """TASK.METRIC, as on the command line."""
        return f"{self.task}.{self.metric}"


@dataclass(frozen=True)
class Spread:
    """The spread of a run's metrics.

    Attributes:
        sigma: Task σ in percentage points; NaN for fewer than ddof + 1 metrics.
        mean: the mean of the same metrics, in percent; NaN for none.
        ddof: the divisor of the sum of squares is n − ddof.
        values: the metrics that were used.
        left_out: the metrics that were not used: errors, and those requested to be left out.
    """

    sigma: float
    mean: float
    ddof: int
    values: tuple[Value, ...]
    left_out: tuple[Value, ...]

    @property
    def notes(self) -> list[str]:
        """Facts needed to interpret σ."""
        notes = []
        errors = [v.name for v in self.left_out if is_error(v.metric)]
        if errors:
            notes.append(f"left out of task σ, because errors are not between 0 and 1: {', '.join(errors)}")
        if isnan(self.sigma):
            notes.append(f"task σ is not defined: {len(self.values)} metrics with ddof {self.ddof}")
        return notes

    def as_dict(self) -> dict[str, Any]:
        """σ and the mean in percent, as JSON values; null if undefined."""
        return {
            "sigma": None if isnan(self.sigma) else self.sigma,
            "mean": None if isnan(self.mean) else self.mean,
            "ddof": self.ddof,
            "count": len(self.values),
            "left_out": [{"task": v.task, "metric": v.metric} for v in self.left_out],
        }


@dataclass(frozen=True)
class Comparison:
    """A task's main metric compared with a reference.

    Attributes:
        task: its name.
        metric: its main metric.
        this: its value in the run.
        reference: the best value of the references; None if none of them has the task.
        source: the name of that reference.
    """

    task: str
    metric: str
    this: float
    reference: float | None
    source: str | None

    @property
    def is_error(self) -> bool:
        """Whether a lower value is better."""
        return is_error(self.metric)

    @property
    def difference(self) -> float | None:
        """This − reference."""
        return None if self.reference is None else self.this - self.reference

    @property
    def at_or_above(self) -> bool | None:
        """Whether it is as good or better, compared without rounding; for an error, as low or lower."""
        if self.difference is None:
            return None
        return self.difference <= 0 if self.is_error else self.difference >= 0


def spread_of(tasks: Metrics, ddof: int = 1, without: Sequence[str] = ()) -> Spread:
    """Task σ of a run.

    Args:
        tasks: the metrics of each task, between 0 and 1.
        ddof: 1 for the sample standard deviation, 0 for that of a population.
        without: metrics to leave out, as TASK.METRIC.
    """
    if ddof < 0:
        raise WeftError(f"ddof {ddof}: expected 0 or more")
    every = [Value(task, name, float(x)) for task, metrics in tasks.items() for name, x in metrics.items()]
    names = [v.name for v in every]
    for name in without:
        if name not in names:
            raise WeftError(f"{name!r} is not a metric of this run; {did_you_mean(name, names)}")
    values = tuple(v for v in every if not is_error(v.metric) and v.name not in without)
    left_out = tuple(v for v in every if v not in values)
    count = len(values)
    mean = fsum(v.value for v in values) / count if count else nan
    squares = fsum((v.value - mean) ** 2 for v in values)
    sigma = sqrt(squares / (count - ddof)) if count > ddof else nan
    return Spread(100 * sigma, 100 * mean, ddof, values, left_out)


def compare(
    tasks: Metrics, references: Mapping[str, Metrics], average: str | None = None
) -> list[Comparison]:
    """Compare each task's main metric with the best value among the references that have the task.

    Args:
        tasks: the metrics of the run.
        references: the metrics of each reference, by name; each has one or more tasks.
        average: the name of an average: its values are compared instead of the main metrics, as the papers
            count tasks. `glue9` has MNLI's matched and mismatched sets separately, and Spearman's
            correlation. A value that the run or all references lack is not compared.
    """
    if average is not None:
        return _compare_average(tasks, references, average)
    comparisons = []
    for task, scores in tasks.items():
        metric, this = next(iter(scores.items()))
        with_task = {name: theirs[task] for name, theirs in references.items() if task in theirs}
        for name, metrics in with_task.items():
            if metric not in metrics:
                raise WeftError(
                    f"{name}: task {task!r} has no {metric!r}, the run's main metric of it; found "
                    f"{', '.join(metrics) or 'none'}; evaluate both with the same metrics (metrics: in the "
                    "run file)"
                )
        best = {name: float(metrics[metric]) for name, metrics in with_task.items()}
        comparisons.append(_comparison(task, metric, float(this), best))
    return comparisons


def _compare_average(tasks: Metrics, references: Mapping[str, Metrics], average: str) -> list[Comparison]:
    if average not in AVERAGES:
        raise WeftError(f"average {average!r} does not exist; {did_you_mean(average, AVERAGES)}")
    comparisons = []
    for part in AVERAGES[average]:
        this = part.value_in(tasks)
        if this is not None:
            values = {name: part.value_in(theirs) for name, theirs in references.items()}
            best = {name: value for name, value in values.items() if value is not None}
            comparisons.append(_comparison(part.task_in(tasks), part.metric, this, best))
    return comparisons


def _comparison(task: str, metric: str, this: float, references: Mapping[str, float]) -> Comparison:
    """Compare a value with the best of the references' values, by their names."""
    best = min if is_error(metric) else max
    source = best(references, key=lambda name: references[name]) if references else None
    return Comparison(task, metric, this, None if source is None else references[source], source)


def change_percent(score: float, reference: float | None) -> float:
    """100·(score − reference)/|reference|, as in the thesis; NaN without a reference, or for one of 0.

    Example:
        >>> change_percent(0.75, 0.5)
        50.0
    """
    return 100 * (score - reference) / abs(reference) if reference else nan


def complete_averages(tasks: Metrics) -> list[str]:
    """The averages of the papers of which a run has every value."""
    return [name for name, parts in AVERAGES.items() if all(p.value_in(tasks) is not None for p in parts)]


def comparison_dict(compared: Sequence[Comparison]) -> dict[str, Any]:
    """How many tasks are at or above their reference, and each comparison, as JSON values."""
    above, count = counts(compared)
    tasks = [
        {**asdict(comparison), "difference": comparison.difference, "at_or_above": comparison.at_or_above}
        for comparison in compared
    ]
    return {"at_or_above": above, "compared": count, "tasks": tasks}


def counts(compared: Sequence[Comparison]) -> tuple[int, int]:
    """How many tasks are at or above the reference, and how many were compared."""
    outcomes = [c.at_or_above for c in compared if c.at_or_above is not None]
    return sum(outcomes), len(outcomes)
