"""The cells of one or several grids that are still to run, and those of them that can start now.

Cells with the same identity are run once, whatever grids they are in. When all trials of a variant have
ended, its tuned values are chosen, and its own cells follow at once: processes do not wait for the trials of
other variants.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from weft.experiments.estimate import expected_seconds
from weft.experiments.job import Job, run_folder
from weft.experiments.plan import Plan, Planned
from weft.experiments.tuning import Choice, choices_of


@dataclass(frozen=True)
class Waiting:
    """A cell that is to run.

    Attributes:
        plan: the first plan that has it.
        planned: the cell.
    """

    plan: Plan
    planned: Planned

    @property
    def needs(self) -> list[str]:
        """The identities of the cells that it uses."""
        return [self.plan.cells[name].identity for name in self.planned.cell.needs]


class Schedule:
    """What is left to do of some plans.

    Args:
        plans: the plans, the most urgent first. Those of one call have one folder.

    Attributes:
        plans: the plans; runs of variants are added to them when their tuned values are chosen.
        waiting: the cells that have not ended, by identity; those that run are among them.
        choices: of each plan, the tuned values of the variants whose trials have ended.
        failed: why cells failed, by identity.
    """

    def __init__(self, plans: Sequence[Plan]) -> None:
        self.plans = list(plans)
        self.waiting: dict[str, Waiting] = {}
        self.choices: list[dict[str, Choice]] = [{} for _ in plans]
        self.failed: dict[str, str] = {}
        for plan in self.plans:
            self._add(plan)
        self._choose(self.plans)

    @property
    def count(self) -> int:
        """How many different cells there are, with those that will follow when tuned values are chosen."""
        known = {planned.identity for plan in self.plans for planned in plan.cells.values()}
        return len(known) + sum(
            len(self._unfinished(plan)) * (len(plan.grid.seeds) - plan.grid.tune.seeds)
            for plan in self.plans
            if plan.grid.tune is not None
        )

    @property
    def done(self) -> int:
        """How many different cells have a record."""
        cells = (planned for plan in self.plans for planned in plan.cells.values())
        return len({planned.identity for planned in cells if planned.record is not None} - {*self.waiting})

    def ready(self, running: Collection[str], device: str | None, keep: bool) -> list[Job]:
        """The jobs that can start: what they need is done. Those of the first plan first, long ones first.

        Args:
            running: the identities of the cells that run.
            device: cpu, cuda, …; None: a GPU if there is one.
            keep: whether all weights are kept.
        """
        jobs: list[Job] = []
        for plan in self.plans:
            ready = [
                entry.planned
                for identity, entry in self.waiting.items()
                if entry.plan is plan
                and identity not in running
                and not any(need in self.waiting for need in entry.needs)
            ]
            if len(ready) > 1:
                ready.sort(key=expected_seconds(plan), reverse=True)
            jobs += [self._job(plan, planned, device, keep) for planned in ready]
        return jobs

    def ended(self, identity: str, reason: str | None) -> None:
        """Note that a cell has ended; it leaves `waiting`, and so do those that need it if it has failed.

        Args:
            identity: of the cell.
            reason: why it failed; None: it has a record.
        """
        del self.waiting[identity]
        if reason is not None:
            self.failed[identity] = reason
        plans = [plan for plan, _ in self._same(identity)]
        for plan in plans:
            plan.refresh(identity)
        if reason is not None:
            self._fail_dependents(identity)
        self._choose(plans)

    def failed_of(self, plan: Plan) -> dict[str, str]:
        """Why cells of a plan failed, by their names."""
        return {
            name: self.failed[planned.identity]
            for name, planned in plan.cells.items()
            if planned.identity in self.failed
        }

    def delete_weights(self, keep: bool) -> None:
        """Delete the weights of cells that others needed, when all of these are done.

        Args:
            keep: whether all are kept; grids may say so too.
        """
        cells = [(plan, planned) for plan in self.plans for planned in plan.cells.values()]
        kept = {planned.identity for plan, planned in cells if keep or plan.grid.keep}
        used = {plan.cells[name].identity for plan, planned in cells for name in planned.cell.needs}
        unfinished = {
            plan.cells[name].identity
            for plan, planned in cells
            if planned.record is None
            for name in planned.cell.needs
        }
        for plan, planned in cells:
            if planned.identity in used - unfinished - kept:
                shutil.rmtree(run_folder(plan.out, planned.identity), ignore_errors=True)

    def _add(self, plan: Plan) -> None:
        """The cells of a plan that wait, without those that have failed."""
        for planned in plan.waiting:
            if planned.identity not in self.failed:
                self.waiting.setdefault(planned.identity, Waiting(plan, planned))

    def _choose(self, plans: Sequence[Plan]) -> None:
        """Choose the tuned values of variants whose trials have ended, and add the cells that use them."""
        for place, plan in enumerate(self.plans):
            if plan.grid.tune is None or plan not in plans:
                continue
            choices = choices_of(plan, self._unfinished(plan))
            if choices.keys() - self.choices[place].keys():
                self.choices[place] = choices
                plan.choose({name: choice.labels for name, choice in choices.items()})
                self._add(plan)

    def _unfinished(self, plan: Plan) -> set[str]:
        """The variants some of whose trials have not ended."""
        trials = [planned for planned in plan.cells.values() if planned.cell.trial]
        return {planned.cell.variant for planned in trials if planned.identity in self.waiting}

    def _job(self, plan: Plan, planned: Planned, device: str | None, keep: bool) -> Job:
        """The job of a cell, which serves all plans that have it."""
        job = plan.job(planned, device, keep or plan.grid.keep)
        others = [(other, same) for other, same in self._same(planned.identity) if other is not plan]
        jobs = [other.job(same, device, keep or other.grid.keep) for other, same in others]
        measures = dict.fromkeys(name for each in (job, *jobs) for name in each.measures)
        return replace(job, measures=tuple(measures), keep=any(each.keep for each in (job, *jobs)))

    def _same(self, identity: str) -> Iterator[tuple[Plan, Planned]]:
        """All cells with an identity, each with its plan."""
        for plan in self.plans:
            for planned in plan.cells.values():
                if planned.identity == identity:
                    yield plan, planned

    def _fail_dependents(self, identity: str) -> None:
        """A cell that needs a failed one fails too."""
        for other, entry in list(self.waiting.items()):
            if identity in entry.needs and other in self.waiting:
                names = entry.planned.cell.needs
                lost = names[entry.needs.index(identity)]
                self.ended(other, f"it uses the run {lost!r}, which failed")
