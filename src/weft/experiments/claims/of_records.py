"""The claims of a grid, compared with the records of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, Any

from weft.evaluation.scores import main_score
from weft.experiments.claims.data import AverageCurve, Curve, Interval, Term
from weft.experiments.claims.evaluate import ClaimResult, evaluate_claims
from weft.experiments.claims.language import parse_claim
from weft.experiments.claims.values import linear
from weft.experiments.measures.of_weights import TIMES
from weft.experiments.tuning import average_of

if TYPE_CHECKING:
    from weft.experiments.grid import Grid
    from weft.experiments.records import Record

GIB = 2**30

RecordsOfGrid = Mapping[str, Mapping[int, "Record"]]
"""The records by variant and seed."""


def claim_results(
    grid: Grid, records: RecordsOfGrid, statistics: Mapping[str, Any] | None = None
) -> list[ClaimResult]:
    """Compare the claims of a grid with its records.

    Args:
        grid: the grid.
        records: the records of its finished runs, without trials.
        statistics: `Comparison.to_dict()` of the grid, with the intervals of `claim_sums` as combinations.
    """
    return evaluate_claims(grid.claims, RecordedData(grid, records, statistics or {}))


Key = tuple[tuple[float, str, str | None], ...]


def claim_sums(grid: Grid) -> list[Key]:
    """The sums of scores that claims are about, each once: (factor, variant, task or None for the average).

    Statistics that resample these sums give the claims intervals that include the variation of rows.
    """
    sums = [linear(parse_claim(claim.test).difference) for claim in grid.claims]
    return list(dict.fromkeys(_key(total.terms) for total in sums if total is not None))


def _key(terms: Sequence[Term]) -> Key:
    return tuple((term.factor, term.variant, term.task) for term in terms)


def value_of(record: Record, name: str, tasks: Sequence[str]) -> float | None:
    """A measured value of one task, or of a pair of tasks in either order; None: there is none.

    Args:
        record: the record.
        name: the name of the value.
        tasks: one task or two.
    """
    values = record.measures.get(name)
    if not isinstance(values, dict):
        return None
    keys = (TIMES.join(tasks), TIMES.join(reversed(tasks)))
    return next((float(values[key]) for key in keys if key in values), None)


class RecordedData:
    """The records of a grid, as claims read them; see `ClaimData`."""

    def __init__(self, grid: Grid, records: RecordsOfGrid, statistics: Mapping[str, Any]) -> None:
        self.grid, self.records = grid, records
        runs = [record for seeds in records.values() for record in seeds.values()]
        self.tasks = {task for record in runs for task, metrics in record.metrics.items() if metrics}
        self.sums = dict(zip(claim_sums(grid), statistics.get("combinations", ()), strict=False))

    def per_seed(
        self, function: str, variant: str, task: str | None = None, of: Sequence[str] = ()
    ) -> dict[int, float]:
        """See `ClaimData`."""
        values = {
            seed: self._value(function, record, task) if not of else value_of(record, str(task), of)
            for seed, record in self.records.get(variant, {}).items()
        }
        return {seed: value for seed, value in values.items() if value is not None}

    def curve(self, variant: str) -> dict[int, Curve]:
        """See `ClaimData`."""
        return {
            seed: [
                (point["step"], {task: 100 * main_score(m) for task, m in point["tasks"].items()})
                for point in record.curve
            ]
            for seed, record in self.records.get(variant, {}).items()
            if record.curve
        }

    def average_curve(self, variant: str) -> dict[int, AverageCurve]:
        """See `ClaimData`: the average that the tables report too; evaluations without it are left out."""
        curves = {
            seed: [(point["step"], self._average(point["tasks"])) for point in record.curve]
            for seed, record in self.records.get(variant, {}).items()
            if record.curve
        }
        return {
            seed: [(step, 100 * value) for step, value in curve if value is not None]
            for seed, curve in curves.items()
        }

    def series(self, name: str, variant: str | None) -> dict[int, Mapping[str, float]]:
        """See `ClaimData`."""
        if variant is None:
            having = (other for other in self.records if self.series(name, other))
            return self.series(name, next(having, ""))
        values: dict[int, Mapping[str, float]] = {}
        for seed, record in self.records.get(variant, {}).items():
            if name == "score":
                values[seed] = {task: 100 * main_score(m) for task, m in record.metrics.items()}
            elif isinstance(record.measures.get(name), dict):
                values[seed] = record.measures[name]
        return values

    def difference_interval(self, terms: Sequence[Term]) -> Interval | None:
        """See `ClaimData`: the interval of a sum that was resampled with the tables."""
        difference = self.sums.get(_key(terms))
        if difference is None or difference["interval"] is None:
            return None
        low, high = difference["interval"]
        return Interval(100 * difference["estimate"], 100 * low, 100 * high, difference["df"])

    def _average(self, tasks: Mapping[str, Mapping[str, float]]) -> float | None:
        """The average of a run, which must have all tasks that others have: as in the tables."""
        return average_of(self.grid.average, tasks, self.tasks)

    def _value(self, function: str, record: Record, task: str | None) -> float | None:
        parameters = record.parameters
        if function == "average":
            average = self._average(record.metrics)
            return None if average is None else 100 * average
        if function == "score":
            return 100 * main_score(record.metrics[task]) if task in record.metrics else None
        if function == "spread":
            from weft.analysis.spread import spread_of

            sigma = spread_of(record.metrics).sigma
            return sigma if sigma == sigma else None
        if function == "parameters":
            known = parameters.get("trained") is not None and parameters.get("encoder")
            return 100 * parameters["trained"] / parameters["encoder"] if known else None
        if function == "total_ratio":
            return parameters.get("total_ratio")
        if function == "seconds":
            return record.seconds.get("train")
        if function == "memory":
            return None if record.memory is None else record.memory / GIB
        assert function == "measure"
        value = record.measures.get(str(task))
        if isinstance(value, dict):
            return fsum(value.values()) / len(value) if value else None
        return None if value is None else float(value)
