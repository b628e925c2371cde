"""How long the cells that wait will take: by the records of cells like them, else by a few timed batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum

from weft.experiments.cells import trials_of
from weft.experiments.plan import Plan, Planned

SEPARATE = 3.0
"""How much longer a run with one encoder per task takes, if none has been timed."""
RECORDS, TIMED = "by finished runs of this grid", "by a few timed batches of each method"


def estimate_minutes(
    plans: Sequence[Plan], jobs: int = 1, device: str | None = None
) -> tuple[float | None, str]:
    """Estimate the minutes of the cells that wait, and how they were estimated; None: not known.

    Cells that use the models of others, and those that follow a choice (`tune`), count as much as the mean of
    the others. A cell that several plans have counts once.

    Args:
        plans: the plans.
        jobs: how many cells run at once.
        device: where they run; None: a GPU if there is one.
    """
    waiting = {planned.identity: (plan, planned) for plan in plans for planned in plan.waiting}
    if not waiting:
        return 0.0, RECORDS
    known = {kind: seconds for plan in plans for kind, seconds in _seconds_per_step(plan).items()}
    runs = [(plan, planned) for plan, planned in waiting.values() if planned.run_file is not None]
    how = RECORDS if all(_kind(plan, planned) in known for plan, planned in runs) else TIMED
    seconds = []
    for plan, planned in runs:
        kind = _kind(plan, planned)
        if kind not in known:
            timed = _timed(planned, device)
            if timed is None:
                return None, how
            known[kind] = timed
        seconds.append(known[kind] * max(1, _steps(planned)))
    if not seconds:
        return None, how
    total = fsum(seconds) / len(seconds) * (len(waiting) + sum(map(_following, plans)))
    return total / jobs / 60, how


def expected_seconds(plan: Plan) -> Callable[[Planned], float]:
    """A guess of how long each cell takes, which orders them: the last one to begin should not be a long one.

    By the finished cells of the same method. A method that none has is expected to take as long as the
    others, and three times as long if every task has an encoder of its own: the optimizer updates them all.
    """
    known = _seconds_per_step(plan)
    usual = fsum(known.values()) / len(known) if known else 1.0

    def seconds(planned: Planned) -> float:
        run = planned.run_file
        if run is None:
            return 0.0
        guess = usual * (SEPARATE if run.method.separate else 1.0)
        return known.get(_kind(plan, planned), guess) * _steps(planned)

    return seconds


def _seconds_per_step(plan: Plan) -> dict[str, float]:
    """The seconds per step of finished cells, by their kind."""
    return {
        _kind(plan, planned): planned.record.seconds["all"] / max(1, _steps(planned))
        for planned in plan.cells.values()
        if planned.record is not None and planned.run_file is not None and planned.record.seconds.get("all")
    }


def _kind(plan: Plan, planned: Planned) -> str:
    return plan.job(planned, None, False).kind


def _steps(planned: Planned) -> int:
    return 0 if planned.run_file is None else planned.run_file.training.steps


def _timed(planned: Planned, device: str | None) -> float | None:
    """The seconds per step of a cell, with its evaluations."""
    from weft.workflows.check import check

    assert planned.run_file is not None
    estimate = check(planned.run_file, device=device, progress=False).estimate
    return None if estimate is None else estimate.seconds / max(1, _steps(planned))


def _following(plan: Plan) -> int:
    """The number of cells that follow when the tuned values are chosen."""
    tune = plan.grid.tune
    if tune is None:
        return 0
    variants = {planned.cell.variant for planned in plan.cells.values()}
    return len(variants) * (len(plan.grid.seeds) - tune.seeds) if trials_of(plan.grid) else 0
