"""Running grids: what is behind `weft.compare` and `weft compare`.

Cells that have a record are not run again. All others run in worker processes; each writes its record when it
ends. A call that is killed at any moment is repeated: finished cells are skipped, and the others resume from
their checkpoints, so that the tables are the same but for measured seconds.

Several grids run in one pool of processes: while the last cells of one run, those of the next begin.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError, words
from weft.experiments.again import to_repeat
from weft.experiments.compared import Compared, halved
from weft.experiments.display import Display, display_for
from weft.experiments.environment import environment, on_nodes
from weft.experiments.gpu_sharing import shared_gpu
from weft.experiments.grid import Grid
from weft.experiments.job import Job
from weft.experiments.plan import Plan
from weft.experiments.pool import CellPool, Pool
from weft.experiments.records import AGAIN
from weft.experiments.schedule import Schedule
from weft.experiments.signals import Signals
from weft.utils.lock import LOCK, locked
from weft.utils.notes import print_note

if TYPE_CHECKING:
    from weft.experiments.on_ray import OnRay

DONE = "done"


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


def run_grid(grid: Grid, out: str | Path, **settings: Any) -> Compared:
    """Run the cells of a grid that have no record; see `run_grids`."""
    return run_grids([grid], out, **settings)[0]


def run_grids(
    grids: Sequence[Grid],
    out: str | Path,
    *,
    jobs: int = 1,
    device: str | None = None,
    keep: bool = False,
    minutes: float | None = None,
    kept: Callable[[Sequence[Plan]], object] | None = None,
    display: Callable[[int, int], Display] = display_for,
    on: OnRay | None = None,
    again: int = 0,
) -> list[Compared]:
    """Run the cells of some grids that have no record.

    Args:
        grids: the grids, the most urgent first. A cell that several have is run once.
        out: the folder of records, logs and weights.
        jobs: how many cells run at once.
        device: cpu, cuda, …; None: a GPU if there is one.
        keep: whether to keep the weights of all cells.
        minutes: begin no cell after this many minutes; those that run then end. `Stopped` is raised if cells
            are left.
        kept: called with the plans before cells run, and after each that ends: what is to be kept of them.
        display: makes the progress display, from the number of cells and of those that are done.
        on: the Ray cluster that cells run on, as many as it has room for; None: this machine.
        again: how many finished cells of each grid to run once more; see `weft.experiments.again`.

    Returns:
        For each grid its cells with their records.
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
    schedule = Schedule([Plan(halved(grid), folder) for grid in grids])
    call = _Call(folder, jobs, device, keep, display, minutes, kept, on)
    if not schedule.waiting and not again:
        return call.results(schedule)
    with locked(
        folder / LOCK,
        folder,
        doing=words("weft compare", "weft.compare"),
        file=folder / "records",
        advice=f"wait for it, or choose a different {words('--out', 'out')}",
        wait=0.0,
    ):
        call.run(schedule)
        repeated = call.run_again(schedule, again) if again else None
        schedule.delete_weights(keep)
    return call.results(schedule, repeated)


@dataclass
class _Call:
    """One call of `run_grids`; its attributes are those of the arguments."""

    out: Path
    jobs: int
    device: str | None
    keep: bool
    display: Callable[[int, int], Display]
    minutes: float | None
    kept: Callable[[Sequence[Plan]], object] | None
    on: OnRay | None = None

    def __post_init__(self) -> None:
        self.until = None if self.minutes is None else time.monotonic() + 60 * self.minutes
        self.retried: set[str] = set()
        self.ran: list[tuple[str, int]] = []
        """The cells that were run: identity and optimizer steps."""

    def results(self, schedule: Schedule, repeated: Schedule | None = None) -> list[Compared]:
        """What the call has done, for each plan.

        Args:
            schedule: the plans.
            repeated: those of the cells that were run once more; None: there are none.
        """
        results = []
        for place, (plan, choices) in enumerate(zip(schedule.plans, schedule.choices, strict=True)):
            identities = {planned.identity for planned in plan.cells.values()}
            steps = [steps for identity, steps in self.ran if identity in identities]
            not_repeated = {} if repeated is None else repeated.failed_of(repeated.plans[place])
            failed = schedule.failed_of(plan)
            results.append(Compared(plan, choices, failed, len(steps), sum(steps), not_repeated))
        return results

    def run(self, schedule: Schedule) -> None:
        """Run all cells that wait."""
        if not schedule.waiting:
            return
        self._keep(schedule)
        if self.on is not None:
            self._run_on_ray(schedule, self.on)
            return
        jobs = min(self.jobs, schedule.count - schedule.done)
        with shared_gpu(jobs, self.device, print_note) as sharing:
            pool = Pool(jobs, {**environment(jobs), **sharing})
            self._run(schedule, pool, bool(sharing), self.device)

    def run_again(self, schedule: Schedule, count: int) -> Schedule:
        """Run some cells of each plan once more, with a folder of their own; returns these.

        Args:
            schedule: the plans, whose cells are done.
            count: how many cells of each plan.
        """
        plans = []
        for plan, choices in zip(schedule.plans, schedule.choices, strict=True):
            names = to_repeat(plan, count)
            if len(names) < count:
                print_note(_fewer(plan.grid.name, count, len(names)))
            chosen = {name: choice.labels for name, choice in choices.items()}
            plans.append(Plan(plan.grid, self.out / AGAIN, chosen or None).only(names))
        second = Schedule(plans)
        kept = lambda _: self._keep(schedule)  # noqa: E731
        call = _Call(second.plans[0].out, self.jobs, self.device, False, self.display, self.minutes, kept)
        call.until = self.until
        try:
            call.run(second)
        except Stopped as stopped:
            if not stopped.over:
                raise self._stopped(schedule, stopped.signal, "stopped") from None
            print_note(f"{stopped} once more; the others are begun when the command is repeated")
        self.ran += call.ran
        return second

    def _run_on_ray(self, schedule: Schedule, on: OnRay) -> None:
        from weft.experiments.ray_pool import RayPool

        reported = [plan.grid.report for plan in schedule.plans]
        cluster = RayPool(
            on,
            self.out,
            [entry.planned for entry in schedule.waiting.values()],
            list(dict.fromkeys(("train", "validation", *reported))),
            device=self.device,
            environment=on_nodes(max(1, int(on.cpus))),
            until=self.until,
            keep=self.keep or any(plan.grid.keep for plan in schedule.plans),
        )
        self._run(schedule, cluster, False, cluster.device)

    def _run(self, schedule: Schedule, pool: CellPool, shared: bool, device: str | None) -> None:
        ready = lambda: self._ready(schedule, pool.running, device)  # noqa: E731
        shown = self.display(schedule.count, schedule.done)
        try:
            with Signals(pool) as signals:
                for job, message in pool.run(ready, shown.workers):
                    if signals.caught is not None and DONE not in message:
                        continue
                    if shared and self._try_again(job, message):
                        continue
                    self._ended(schedule, job, message, shown)
                    self._keep(schedule)
            if signals.caught is not None:
                raise self._stopped(schedule, signals.caught, "stopped")
            if schedule.waiting and self.minutes is not None:
                why = f"the {self.minutes:g} minutes are over"
                raise self._stopped(schedule, signal.SIGINT, why, over=True)
        finally:
            pool.close()
            shown.close()

    def _keep(self, schedule: Schedule) -> None:
        if self.kept is not None:
            self.kept(schedule.plans)

    def _stopped(self, schedule: Schedule, number: int, why: str, over: bool = False) -> Stopped:
        return Stopped(number, schedule.done, schedule.count, why, over)

    def _try_again(self, job: Job, message: Mapping[str, Any]) -> bool:
        """Whether a cell runs once more: with MPS, an error of one process on the GPU ends all others too."""
        again = ("gone" in message or "broken" in message) and job.identity not in self.retried
        self.retried |= {job.identity} if again else set()
        return again

    def _ready(self, schedule: Schedule, running: set[str], device: str | None) -> list[Job]:
        """The jobs that can start, if there is time left.

        Those of one grid: a free process prefers a kind of cell that it has compiled, and would leave cells
        of the first grid to the end. Ray gets all at once, in their order.
        """
        if self.until is not None and time.monotonic() >= self.until:
            return []
        jobs = schedule.ready(running, device, self.keep)
        return jobs if self.on is not None else [job for job in jobs if job.source == jobs[0].source]

    def _ended(self, schedule: Schedule, job: Job, message: Mapping[str, Any], shown: Display) -> None:
        self.ran.append((job.identity, int(message.get("steps", 0))))
        reason = None if DONE in message else str(message.get("failed", "it ended without a result"))
        entry = schedule.waiting[job.identity]
        schedule.ended(job.identity, reason)
        record = None if reason is not None else entry.plan.records.read(job.identity)
        shown.ended(entry.planned.cell.name, record, reason)


def _fewer(grid: str, count: int, possible: int) -> str:
    """That fewer runs of a grid can be trained once more than were requested."""
    return (
        f"{grid}: {words('--again', 'again')} is {count}, but only {possible} can be trained once more: runs "
        "that failed or use other runs are left out, and equal runs under several names count once"
    )
