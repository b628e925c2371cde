"""How evenly scores are spread over tasks, and how many tasks are at or above a reference (CA-MTL).

Task σ is the standard deviation of all reported metrics of all tasks, both of a task that has two, in
percent: σ = 100·√(Σ (x − x̄)² / (n − ddof)). Errors (mse) are no shares of 1 and are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum, isnan, nan, sqrt
from typing import Any, NamedTuple

from weft.errors import WeftError, did_you_mean
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
        """As a user writes it."""
        return f"{self.task}.{self.metric}"


@dataclass(frozen=True)
class Spread:
    """The spread of a run's metrics.

    Attributes:
        sigma: Task σ in percent; NaN of fewer than ddof + 1 metrics.
        mean: the mean of the same metrics, in percent; NaN of none.
        ddof: what is taken off their number under the sum of squares.
        values: the metrics that took part.
        left_out: those that did not: errors, and what was asked to be left out.
    """

    sigma: float
    mean: float
    ddof: int
    values: tuple[Value, ...]
    left_out: tuple[Value, ...]

    @property
    def notes(self) -> list[str]:
        """What a reader of σ must know."""
        found = []
        errors = [v.name for v in self.left_out if is_error(v.metric)]
        if errors:
            found.append(f"left out of task σ, as errors are no shares of 1: {', '.join(errors)}")
        if isnan(self.sigma):
            found.append(f"task σ is not defined: {len(self.values)} metrics with ddof {self.ddof}")
        return found

    def as_dict(self) -> dict[str, Any]:
        """σ and the mean in percent, JSON-able; null where they are not defined."""
        return {
            "sigma": None if isnan(self.sigma) else self.sigma,
            "mean": None if isnan(self.mean) else self.mean,
            "ddof": self.ddof,
            "count": len(self.values),
            "left_out": [{"task": v.task, "metric": v.metric} for v in self.left_out],
        }


@dataclass(frozen=True)
class Comparison:
    """A task's main metric beside that of a reference.

    Attributes:
        task: its name.
        metric: its main metric.
        this: its value in the run.
        reference: the best value of the references; None if none of them has the task.
        source: the name of the reference that it is of.
    """

    task: str
    metric: str
    this: float
    reference: float | None
    source: str | None

    @property
    def is_error(self) -> bool:
        """Whether less of the metric is better."""
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
        tasks: each task's metrics, as shares of 1.
        ddof: 1 for the deviation of a sample, 0 for that of the numbers themselves.
        without: metrics to leave out, as TASK.METRIC.
    """
    if ddof < 0:
        raise WeftError(f"ddof {ddof}: expected 0 or more")
    every = [Value(task, name, float(x)) for task, own in tasks.items() for name, x in own.items()]
    known = [v.name for v in every]
    for name in without:
        if name not in known:
            raise WeftError(f"{name!r} is no metric of this run; {did_you_mean(name, known)}")
    values = tuple(v for v in every if not is_error(v.metric) and v.name not in without)
    left_out = tuple(v for v in every if v not in values)
    count = len(values)
    mean = fsum(v.value for v in values) / count if count else nan
    squares = fsum((v.value - mean) ** 2 for v in values)
    sigma = sqrt(squares / (count - ddof)) if count > ddof else nan
    return Spread(100 * sigma, 100 * mean, ddof, values, left_out)


def compare(tasks: Metrics, references: Mapping[str, Metrics]) -> list[Comparison]:
    """Each task's main metric beside the same metric of the references, the best of those that have it.

    Args:
        tasks: of the run.
        references: by their name; each of one task or of several.
    """
    found = []
    for task, own in tasks.items():
        metric, this = next(iter(own.items()))
        there = {name: theirs[task] for name, theirs in references.items() if task in theirs}
        for name, metrics in there.items():
            if metric not in metrics:
                raise WeftError(
                    f"{name}: task {task!r} has no {metric!r}, the run's main metric of it; found "
                    f"{', '.join(metrics) or 'none'}; evaluate both with the same metrics (metrics: in the "
                    "run file)"
                )
        best = min if is_error(metric) else max
        source = best(there, key=lambda name: there[name][metric]) if there else None
        reference = None if source is None else float(there[source][metric])
        found.append(Comparison(task, metric, float(this), reference, source))
    return found


def comparison_dict(compared: Sequence[Comparison]) -> dict[str, Any]:
    """How many tasks are at or above their reference, and each comparison; JSON-able."""
    above, count = counts(compared)
    tasks = [
        {**asdict(one), "difference": one.difference, "at_or_above": one.at_or_above} for one in compared
    ]
    return {"at_or_above": above, "compared": count, "tasks": tasks}


def counts(compared: Sequence[Comparison]) -> tuple[int, int]:
    """How many tasks are at or above the reference, and how many were compared."""
    known = [one.at_or_above for one in compared if one.at_or_above is not None]
    return sum(known), len(known)
