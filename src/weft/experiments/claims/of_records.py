"""The claims of a grid, compared with the records of its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import TYPE_CHECKING, Any

from weft.evaluation.scores import main_score
from weft.experiments.claims.data import Curve, Interval, Term
from weft.experiments.claims.evaluate import ClaimResult, evaluate_claims
from weft.experiments.claims.language import parse_claim
from weft.experiments.claims.values import linear
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
        statistics: `Comparison.to_dict()` of the grid, whose intervals are used for claims about one of its
            contrasts; see `claim_pairs`.
    """
    return evaluate_claims(grid.claims, RecordedData(grid, records, statistics or {}))


def claim_pairs(grid: Grid) -> list[tuple[str, str]]:
    """The pairs of variants whose difference of scores a claim is about, in the order of the claims.

    Statistics that compare these pairs give the claims intervals that include the variation of rows.
    """
    pairs: list[tuple[str, str]] = []
    for claim in grid.claims:
        total = linear(parse_claim(claim.test).difference)
        pair = None if total is None else _pair(total.terms)
        if pair is not None:
            pairs.append((pair[0].variant, pair[1].variant))
    return list(dict.fromkeys(pairs))


class RecordedData:
    """The records of a grid, as claims read them; see `ClaimData`."""

    def __init__(self, grid: Grid, records: RecordsOfGrid, statistics: Mapping[str, Any]) -> None:
        self.grid, self.records = grid, records
        self.contrasts = {(c["variant"], c["baseline"]): c for c in statistics.get("contrasts", ())}

    def per_seed(self, function: str, variant: str, task: str | None = None) -> dict[int, float]:
        """See `ClaimData`."""
        values = {
            seed: self._value(function, record, task)
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
        """See `ClaimData`: the interval of a contrast of the statistics; None for any other sum."""
        pair = _pair(terms)
        if pair is None:
            return None
        above, below = pair
        for key, sign in (((above.variant, below.variant), 1.0), ((below.variant, above.variant), -1.0)):
            contrast = self.contrasts.get(key)
            if contrast is None:
                continue
            difference = contrast["average"] if above.task is None else contrast["tasks"].get(above.task)
            if difference is None or difference["interval"] is None:
                return None
            factor = 100 * sign * above.factor
            low, high = sorted(factor * end for end in difference["interval"])
            return Interval(factor * difference["estimate"], low, high, difference.get("df"))
        return None

    def _value(self, function: str, record: Record, task: str | None) -> float | None:
        parameters = record.parameters
        if function == "average":
            return 100 * average_of(self.grid.average, record.metrics)
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


def _pair(terms: Sequence[Term]) -> tuple[Term, Term] | None:
    """The two terms of a multiple of score(a) − score(b), the positive one first; None for any other sum."""
    if len(terms) != 2:
        return None
    above, below = sorted(terms, key=lambda term: -term.factor)
    same = above.task == below.task and above.variant != below.variant
    return (above, below) if same and above.factor == -below.factor else None
