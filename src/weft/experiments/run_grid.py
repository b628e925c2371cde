"""Running a grid: the function behind `weft.compare` and `weft compare`.

Cells that have a record are not run again. All others run in worker processes; each writes its record when it
ends. A call that is killed at any moment is repeated: finished cells are skipped, and the others resume from
their checkpoints, so that the tables are the same but for measured seconds.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError, words
from weft.experiments.again import to_repeat
from weft.experiments.display import Display, display_for
from weft.experiments.environment import environment, on_nodes
from weft.experiments.estimate import expected_seconds
from weft.experiments.gpu_sharing import shared_gpu
from weft.experiments.grid import Grid
from weft.experiments.job import Job
from weft.experiments.plan import Plan, Planned
from weft.experiments.pool import CellPool, Pool
from weft.experiments.records import AGAIN, Record
from weft.experiments.signals import Signals
from weft.experiments.tuning import Choice, choose
from weft.utils.lock import LOCK, locked
from weft.utils.notes import print_note

if TYPE_CHECKING:
    from weft.experiments.on_ray import OnRay

DONE = "done"


@dataclass(frozen=True)
class Compared:
    """What a call of `weft compare` has done.

    Attributes:
        plan: the cells, with their records.
        choices: the tuned values of each variant; {} without `tune`.
        failed: why cells failed, by name.
        not_repeated: why cells could not be run once more, by name.
        ran: how many cells this call has run.
        steps: how many optimizer steps this call has taken.
    """

    plan: Plan
    choices: Mapping[str, Choice] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    ran: int = 0
    steps: int = 0
    not_repeated: Mapping[str, str] = field(default_factory=dict)

    @property
    def records(self) -> dict[str, dict[int, Record]]:
        """The records by variant and seed, without trials."""
        found: dict[str, dict[int, Record]] = {}
        for planned in self.plan.cells.values():
            cell = planned.cell
            if planned.record is not None and not cell.trial:
                found.setdefault(cell.variant, {})[cell.seed] = planned.record
        return found


class Stopped(Exception):
    """A comparison was interrupted, and running cells have written their checkpoints; or its time was over.

    Attributes:
        signal: the number of the signal; SIGINT if the time was over.
        done: how many cells have a record.
        cells: how many cells there are.
        over: whether the time was over.
    """

    def __init__(self, signal: int, done: int, cells: int, why: str = "stopped", over: bool = False) -> None:
        self.signal, self.done, self.cells, self.over = signal, done, cells, over
        super().__init__(f"{why}; {done} of {cells} runs are done")


def run_grid(
    grid: Grid,
    out: str | Path,
    *,
    jobs: int = 1,
    device: str | None = None,
    keep: bool = False,
    minutes: float | None = None,
    kept: Callable[[Plan], object] | None = None,
    display: Callable[[int, int], Display] = display_for,
    on: OnRay | None = None,
    again: int = 0,
) -> Compared:
    """Run the cells of a grid that have no record.

    Args:
        grid: the grid.
        out: the folder of records, logs and weights.
        jobs: how many cells run at once.
        device: cpu, cuda, …; None: a GPU if there is one.
        keep: whether to keep the weights of all cells.
        minutes: begin no cell after this many minutes; those that run then end. `Stopped` is raised if cells
            are left.
        kept: called with the plan before cells run, and after each that ends: what is to be kept of them.
        display: makes the progress display, from the number of cells and of those that are done.
        on: the Ray cluster that cells run on, as many as it has room for; None: this machine.
        again: how many finished cells to run once more; see `weft.experiments.again`.
    """
    folder = Path(out)
    if folder.is_file():
        raise WeftError(f"{folder} is a file; expected a folder as {words('--out', 'out')}")
    if jobs < 1:
        raise WeftError(f"{words('--jobs', 'jobs')} must be at least 1; found {jobs}")
    if again < 0:
        raise WeftError(f"{words('--again', 'again')} must be at least 0; found {again}")
    if minutes is not None and not minutes > 0:
        raise WeftError(f"{words('--minutes', 'minutes')} must be above 0; found {minutes}")
    grid = halved(grid)
    call = _Call(grid, folder, jobs, device, keep or grid.keep, display, minutes, kept, on)
    plan = Plan(grid, folder)
    if not plan.waiting and grid.tune is None and not again:
        return call.result(plan, {})
    with locked(
        folder / LOCK,
        folder,
        doing=words("weft compare", "weft.compare"),
        file=folder / "records",
        advice=f"wait for it, or choose a different {words('--out', 'out')}",
        wait=0.0,
    ):
        call.run(plan)
        choices = _choices(grid, plan)
        chosen = {name: choice.labels for name, choice in choices.items()}
        if choices:
            plan = Plan(grid, folder, chosen)
            call.run(plan)
        if again:
            call.run_again(plan, Plan(grid, folder / AGAIN, chosen or None).only(to_repeat(plan, again)))
        if not call.keep:
            plan.delete_weights()
    return call.result(plan, choices)


def recorded(grid: Grid, out: str | Path, identities: Mapping[str, str] | None = None) -> Compared:
    """The finished cells of a grid, by their records alone; nothing is run.

    Args:
        grid: the grid.
        out: the folder of the records.
        identities: the identity of each cell by its name, as a file of packed records has them: data files
            and encoder are not needed then. None: they are computed from these.
    """
    grid = halved(grid)
    plan = Plan(grid, Path(out), identities=identities)
    choices = _choices(grid, plan)
    if choices:
        chosen = {name: choice.labels for name, choice in choices.items()}
        plan = Plan(grid, Path(out), chosen, identities)
    return Compared(plan, choices)


def halved(grid: Grid) -> Grid:
    """With `tune`, tables report the other half of validation, which is the test split; see `cells_of`."""
    return grid if grid.tune is None else replace(grid, report="test")


def _choices(grid: Grid, plan: Plan) -> dict[str, Choice]:
    """The tuned values, by the trials that are done."""
    if grid.tune is None:
        return {}
    trials = {
        (planned.cell.variant, tuple(planned.cell.tuned.values()), planned.cell.seed): planned.record
        for planned in plan.cells.values()
        if planned.cell.trial
    }
    return choose(grid, trials)


class _Call:
    """One call of `run_grid`."""

    def __init__(
        self,
        grid: Grid,
        out: Path,
        jobs: int,
        device: str | None,
        keep: bool,
        display: Callable[[int, int], Display],
        minutes: float | None,
        kept: Callable[[Plan], object] | None,
        on: OnRay | None = None,
    ) -> None:
        self.on = on
        self.grid, self.out, self.jobs, self.device, self.keep = grid, out, jobs, device, keep
        self.display, self.minutes, self.kept = display, minutes, kept
        self.until = None if minutes is None else time.monotonic() + 60 * minutes
        self.retried: set[str] = set()
        self.failed: dict[str, str] = {}
        self.not_repeated: dict[str, str] = {}
        self.ran = self.steps = 0

    def result(self, plan: Plan, choices: Mapping[str, Choice]) -> Compared:
        return Compared(plan, choices, dict(self.failed), self.ran, self.steps, self.not_repeated)

    def run(self, plan: Plan) -> None:
        """Run all cells that wait."""
        waiting = {planned.identity: planned for planned in plan.waiting}
        if not waiting:
            return
        self._keep(plan)
        if self.on is not None:
            from weft.experiments.ray_pool import RayPool

            splits = dict.fromkeys(("train", "validation", self.grid.report))
            cluster = RayPool(
                self.on,
                self.out,
                list(waiting.values()),
                list(splits),
                device=self.device,
                environment=on_nodes(max(1, int(self.on.cpus))),
                until=self.until,
                keep=self.keep,
            )
            self.device = cluster.device
            self._run(plan, waiting, cluster, False)
            return
        jobs = min(self.jobs, len(waiting))
        with shared_gpu(jobs, self.device, print_note) as sharing:
            self._run(plan, waiting, Pool(jobs, {**environment(jobs), **sharing}), bool(sharing))

    def run_again(self, plan: Plan, second: Plan) -> None:
        """Run some cells of the plan once more.

        Args:
            plan: the plan, whose cells are done.
            second: the cells to run, with a folder of their own.
        """
        kept = lambda _: self._keep(plan)  # noqa: E731
        call = _Call(self.grid, second.out, self.jobs, self.device, False, self.display, self.minutes, kept)
        call.until = self.until
        try:
            call.run(second)
        except Stopped as stopped:
            if not stopped.over:
                raise self._stopped(plan, stopped.signal, "stopped") from None
            print_note(f"{stopped} once more; the others are begun when the command is repeated")
        self.ran, self.steps = self.ran + call.ran, self.steps + call.steps
        self.not_repeated = dict(call.failed)

    def _run(self, plan: Plan, waiting: dict[str, Planned], pool: CellPool, shared: bool) -> None:
        shown = self.display(len(plan.cells), len(plan.cells) - len(waiting))
        try:
            with Signals(pool) as signals:
                for job, message in pool.run(lambda: self._ready(plan, waiting, pool.running), shown.workers):
                    if signals.caught is not None and DONE not in message:
                        continue
                    if shared and self._try_again(job, message):
                        continue
                    self._ended(plan, waiting.pop(job.identity), job, message, shown)
                    self._fail_dependents(plan, waiting)
                    self._keep(plan)
            if signals.caught is not None:
                raise self._stopped(plan, signals.caught, "stopped")
            if waiting and self.minutes is not None:
                why = f"the {self.minutes:g} minutes are over"
                raise self._stopped(plan, signal.SIGINT, why, over=True)
        finally:
            pool.close()
            shown.close()

    def _keep(self, plan: Plan) -> None:
        if self.kept is not None:
            self.kept(plan)

    def _stopped(self, plan: Plan, number: int, why: str, over: bool = False) -> Stopped:
        done = sum(planned.record is not None for planned in plan.cells.values())
        return Stopped(number, done, len(plan.cells), why, over)

    def _try_again(self, job: Job, message: Mapping[str, Any]) -> bool:
        """Whether a cell runs once more: with MPS, an error of one process on the GPU ends all others too."""
        again = ("gone" in message or "broken" in message) and job.identity not in self.retried
        self.retried |= {job.identity} if again else set()
        return again

    def _ready(self, plan: Plan, waiting: Mapping[str, Planned], running: set[str]) -> list[Job]:
        """The jobs that can start, long ones first: what they need is done, and there is time left."""
        if self.until is not None and time.monotonic() >= self.until:
            return []
        ready = []
        for identity, planned in waiting.items():
            needs = [plan.cells[name].identity for name in planned.cell.needs]
            if identity not in running and not any(need in waiting for need in needs):
                ready.append(planned)
        if len(ready) > 1:
            ready.sort(key=expected_seconds(plan), reverse=True)
        return [plan.job(planned, self.device, self.keep) for planned in ready]

    def _ended(
        self, plan: Plan, planned: Planned, job: Job, message: Mapping[str, Any], shown: Display
    ) -> None:
        self.ran += 1
        self.steps += int(message.get("steps", 0))
        if DONE in message:
            plan.refresh(job.identity)
            shown.ended(planned.cell.name, plan.cells[planned.cell.name].record, None)
            return
        reason = str(message.get("failed", "it ended without a result"))
        self._note_failure(plan, planned, reason)
        shown.ended(planned.cell.name, None, reason)

    def _note_failure(self, plan: Plan, planned: Planned, reason: str) -> None:
        for name, other in plan.cells.items():
            if other.identity == planned.identity:
                self.failed[name] = reason

    def _fail_dependents(self, plan: Plan, waiting: dict[str, Planned]) -> None:
        """A cell that needs a failed one fails too."""
        for identity, planned in list(waiting.items()):
            lost = [name for name in planned.cell.needs if name in self.failed]
            if lost:
                del waiting[identity]
                self._note_failure(plan, planned, f"it uses the run {lost[0]!r}, which failed")
