"""Training some finished runs once more: do they give the numbers of their records?

A table can be trusted if its runs can be repeated. `weft compare GRID --again 2` trains two finished runs
from nothing, beside the first ones, and the page shows both numbers. On equal machines they may be equal bit
by bit; elsewhere a difference is judged by how much runs of different seeds differ: two runs agree if their
averages differ by no more than the 95 % interval of a difference of two seeds allows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from weft.evaluation.scores import main_score
from weft.experiments.grid import Grid
from weft.experiments.plan import Plan, Planned
from weft.experiments.records import Record
from weft.experiments.text_table import NONE
from weft.experiments.tuning import average_of

if TYPE_CHECKING:
    from weft.experiments.statistics.seeds import SeedSpread


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
        allowed: the largest difference of two averages that agree; None as above.
        agrees: whether both runs agree; None: there is nothing to judge by.
        machines: the devices of both runs; None: not known.
        failed: why the second run failed; None: it did not.
    """

    run: str
    then: float | None
    now: float | None
    task: str
    difference: float
    equal: bool
    noise: float | None
    allowed: float | None
    agrees: bool | None
    machines: tuple[str | None, ...]
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
    spread = spread_of(plan.grid, records) if pairs else None
    return tuple(_compared(plan.grid, name, then, now, spread, failed.get(name)) for name, then, now in pairs)


def spread_of(grid: Grid, records: Mapping[str, Mapping[int, Record]]) -> SeedSpread | None:
    """How much the average differs between seeds; None: no variant has two seeds.

    Args:
        grid: the grid.
        records: by variant and seed. Equal runs under two names are one run.
    """
    from weft.experiments.statistics.seeds import seed_spread

    variants: list[dict[str, Record]] = []
    for seeds in records.values():
        runs = {record.identity: record for record in seeds.values()}
        same = next((known for known in variants if known.keys() & runs.keys()), None)
        if same is None:
            variants.append(runs)
        else:
            same |= runs
    averages = ([_average(grid, record) for record in runs.values()] for runs in variants)
    return seed_spread([[x for x in of_variant if x is not None] for of_variant in averages])


def judgement(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """In words: how many runs agree with their records, by what this is judged, and how many cannot be.

    Args:
        runs: `Repeated.to_dict()` of each run of a grid that was trained again; at least one.
    """
    judged = [run for run in runs if run["agrees"] is not None]
    lines = []
    if judged:
        count = sum(run["agrees"] for run in judged)
        agree = "agrees with its record" if count == 1 else "agree with their records"
        line = f"{count} of {len(runs)} runs that were trained again {agree}"
        noise, allowed = judged[0]["noise"], judged[0].get("allowed")
        if noise is None or allowed is None:
            lines.append(f"{line}: all their metrics are equal bit by bit" if count else line)
        else:
            lines += [
                line,
                f"a run agrees with its record if both averages differ by at most {100 * allowed:.2f} "
                "points, so that the difference is within the 95 % interval of a difference of two seeds; "
                f"the standard deviation between seeds is {100 * noise:.2f} points",
            ]
    reasons = [
        "the average of one of both runs is missing"
        if run["then"] is None or run["now"] is None
        else "no variant has two seeds, so that nothing says how much runs of different seeds differ"
        for run in runs
        if run["agrees"] is None
    ]
    for reason in dict.fromkeys(reasons):
        count = reasons.count(reason)
        lines.append(f"{count} of {len(runs)} runs that were trained again cannot be judged: {reason}")
    return lines


def devices(machines: Sequence[str | None]) -> str:
    """The devices of both runs, for a table."""
    return " and ".join(dict.fromkeys(device or NONE for device in machines))


def in_points(difference: float) -> str:
    """A difference of scores for readers.

    Example:
        >>> in_points(-0.0123), in_points(-0.00001)
        ('-1.23', 'below 0.01')
    """
    return f"{100 * difference:+.2f}" if abs(difference) >= 5e-5 else "below 0.01"


def _repeatable(plan: Plan) -> list[Planned]:
    """The runs that can be repeated; of equal runs under several names the first.

    Left out are trials, runs that use others, and those that train nothing.
    """
    runs: dict[str, Planned] = {}
    for planned in plan.cells.values():
        record = planned.record
        if record is None or record.failed is not None or planned.cell.trial or planned.cell.needs:
            continue
        if (record.settings.get("train") or {}).get("steps") != 0:
            runs.setdefault(planned.identity, planned)
    return list(runs.values())


def _compared(
    grid: Grid,
    name: str,
    then: Record,
    now: Record | None,
    spread: SeedSpread | None,
    failed: str | None,
) -> Repeated:
    before = _average(grid, then)
    noise, allowed = (None, None) if spread is None else (spread.deviation, spread.largest_difference())
    if failed is not None or now is None or now.failed is not None:  # an older second record says nothing
        why = failed or (now.failed if now is not None else None) or "no record"
        return Repeated(name, before, None, "", 0.0, False, noise, allowed, False, (then.device,), why)
    after = _average(grid, now)
    differences: Sequence[tuple[str, float]] = [
        (task, main_score(now.metrics[task]) - main_score(metrics))
        for task, metrics in then.metrics.items()
        if metrics and now.metrics.get(task)
    ]
    task, difference = max(differences, key=lambda each: abs(each[1]), default=("", 0.0))
    equal = bool(differences) and then.metrics == now.metrics
    agrees: bool | None = True if equal else None
    if agrees is None and allowed is not None and before is not None and after is not None:
        agrees = abs(after - before) <= allowed
    machines = then.device, now.device
    return Repeated(name, before, after, task, difference, equal, noise, allowed, agrees, machines)


def _average(grid: Grid, record: Record) -> float | None:
    """The average of a record; None if it has none, such as one from a damaged file."""
    metrics = {task: values for task, values in record.metrics.items() if values}
    return average_of(grid.average, metrics) if metrics else None
