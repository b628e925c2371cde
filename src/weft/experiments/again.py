"""Training some finished runs once more: do they give the numbers of their records?

A table can be trusted if its runs can be repeated. `weft compare GRID --again 2` trains two finished runs
from nothing, beside the first ones, and the page shows both numbers. On equal machines they may be equal bit
by bit; elsewhere a difference is judged by how much runs of different seeds differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum, sqrt
from typing import Any

from weft.evaluation.scores import main_score
from weft.experiments.grid import Grid
from weft.experiments.plan import Plan, Planned
from weft.experiments.records import Record
from weft.experiments.tuning import average_of

DIFFERS = 2.0
"""Two runs agree if their averages differ by at most so many standard deviations of such a difference."""


@dataclass(frozen=True)
class Repeated:
    """A run that was trained a second time.

    Attributes:
        run: the name of its cell.
        then: the average of its record, from 0 to 1; None: it has none.
        now: that of the second run.
        task: the task whose scores differ most.
        difference: the second score of that task minus the first.
        equal: whether all metrics are equal bit by bit.
        noise: the standard deviation of the average between seeds, over all variants; None: no variant has
            two seeds.
        agrees: whether both averages agree within the noise; None: there is nothing to judge by.
        machines: the devices of both runs.
        failed: why the second run failed; None: it did not.
    """

    run: str
    then: float | None
    now: float | None
    task: str
    difference: float
    equal: bool
    noise: float | None
    agrees: bool | None
    machines: tuple[str, ...]
    failed: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """All fields, JSON-ready."""
        return {**asdict(self), "machines": list(self.machines)}


def to_repeat(plan: Plan, count: int) -> list[str]:
    """The names of the runs to train again: finished ones that need no other run, first one of each variant.

    The order is that of hashes, so that nobody has chosen them, and every call chooses the same.

    Args:
        plan: the plan of the finished grid.
        count: how many.
    """
    runs = _repeatable(plan)
    runs.sort(key=lambda planned: hashlib.sha256(planned.identity.encode()).hexdigest())
    seen: dict[str, int] = {}
    turns = []
    for planned in runs:  # the first run of each variant, then the second of each, …
        turn = seen[planned.cell.variant] = seen.get(planned.cell.variant, 0) + 1
        turns.append((turn, planned.cell.name))
    return [name for _, name in sorted(turns, key=lambda each: each[0])][:count]


def repeated(
    plan: Plan, records: Mapping[str, Mapping[int, Record]], failed: Mapping[str, str] | None = None
) -> tuple[Repeated, ...]:
    """The runs of a grid that were trained again, as far as their second records are there.

    Args:
        plan: the plan of the grid.
        records: the first records by variant and seed.
        failed: why runs could not be trained again, by their names.
    """
    failed = failed or {}
    pairs = []
    for planned in _repeatable(plan):
        now = plan.records.again.read(planned.identity)
        if planned.record is not None and (now is not None or planned.cell.name in failed):
            pairs.append((planned.cell.name, planned.record, now))
    noise = seed_deviation(plan.grid, records) if pairs else None
    return tuple(_compared(plan.grid, name, then, now, noise, failed.get(name)) for name, then, now in pairs)


def seed_deviation(grid: Grid, records: Mapping[str, Mapping[int, Record]]) -> float | None:
    """The standard deviation of the average between seeds, over all variants; None: no variant has two seeds.

    With x_vs the average of variant v and seed s, and n_v seeds: √(Σ_v Σ_s (x_vs − x̄_v)² / Σ_v (n_v − 1)).
    """
    squares, free = [], 0
    for seeds in records.values():
        values = [x for record in seeds.values() if (x := _average(grid, record)) is not None]
        mean = fsum(values) / len(values) if values else 0.0
        squares += [(value - mean) ** 2 for value in values]
        free += max(len(values) - 1, 0)
    return sqrt(fsum(squares) / free) if free else None


def _repeatable(plan: Plan) -> list[Planned]:
    """The runs that can be repeated; of equal runs under several names the first."""
    runs: dict[str, Planned] = {}
    for planned in plan.cells.values():
        record = planned.record
        if record is not None and record.failed is None and not (planned.cell.trial or planned.cell.needs):
            runs.setdefault(planned.identity, planned)
    return list(runs.values())


def _compared(
    grid: Grid, name: str, then: Record, now: Record | None, noise: float | None, failed: str | None
) -> Repeated:
    before = _average(grid, then)
    machine = str(then.machine.get("device"))
    if now is None or now.failed is not None:
        why = failed if now is None or now.failed is None else now.failed
        return Repeated(name, before, None, "", 0.0, False, noise, False, (machine,), why or "no record")
    after = _average(grid, now)
    differences: Sequence[tuple[str, float]] = [
        (task, main_score(now.metrics[task]) - main_score(metrics))
        for task, metrics in then.metrics.items()
        if metrics and now.metrics.get(task)
    ]
    task, difference = max(differences, key=lambda each: abs(each[1]), default=("", 0.0))
    equal = bool(differences) and then.metrics == now.metrics
    agrees: bool | None = True if equal else None
    if agrees is None and noise is not None and before is not None and after is not None:
        agrees = abs(after - before) <= DIFFERS * sqrt(2) * noise
    machines = machine, str(now.machine.get("device"))
    return Repeated(name, before, after, task, difference, equal, noise, agrees, machines)


def _average(grid: Grid, record: Record) -> float | None:
    """The average of a record; None if it has none, such as one from a damaged file."""
    metrics = {task: values for task, values in record.metrics.items() if values}
    return average_of(grid.average, metrics) if metrics else None
