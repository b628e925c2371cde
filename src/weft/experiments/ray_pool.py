"""A pool that runs cells on a Ray cluster: each cell is a Ray task, and Ray decides where and when it runs.

Every cell that can start is given to Ray at once. If a node is lost, Ray runs its cells on other nodes, where
they resume from their checkpoints. `weft.experiments.ray_node` is what runs there.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.errors import WeftError
from weft.experiments.job import Job
from weft.experiments.on_ray import OnRay, able_nodes, alive, at_node, check_nodes, checked_gpus
from weft.experiments.plan import Planned
from weft.experiments.pool import TICK, Running
from weft.experiments.ray_needs import needed_by
from weft.experiments.ray_node import LEFT, put_on_shared, run_cell
from weft.experiments.ray_store import Store, kept_file
from weft.experiments.records import Records
from weft.utils.files import write_bytes
from weft.utils.notes import print_note
from weft.utils.ray_start import ray_cluster, runtime_environment

RETRIES = 10
"""How often Ray runs a cell again because its node or its process was lost."""


@dataclass
class Cell:
    """A cell that was given to Ray.

    Attributes:
        job: the cell.
        reference: Ray's reference to its result.
        node: the node it runs on; None: it has not begun.
        state: its last progress message.
    """

    job: Job
    reference: Any
    node: str | None = None
    state: dict[str, Any] = field(default_factory=dict)


class RayPool:
    """Runs jobs as tasks of a Ray cluster.

    Args:
        settings: where, and with what.
        out: the folder of the comparison.
        waiting: the cells that are to be run, for checks of the nodes.
        splits: the splits that they read.
        device: as the user has set it.
        environment: environment variables of the cells.
        until: when to begin no more cells, by `time.monotonic()`; None: never.
        keep: whether weights are kept.
    """

    def __init__(
        self,
        settings: OnRay,
        out: Path,
        waiting: Sequence[Planned],
        splits: Sequence[str],
        *,
        device: str | None = None,
        environment: Mapping[str, str] | None = None,
        until: float | None = None,
        keep: bool = False,
    ) -> None:
        self._settings, self._out, self._until = settings, out.resolve(), until
        self._cells: dict[Any, Cell] = {}
        self._signal: int | None = None
        self._stopping = self._changed = False
        self._stack = ExitStack()
        try:
            self._ray = self._stack.enter_context(ray_cluster(settings.address))
            gpus = checked_gpus(alive(self._ray), settings, device)
            self.device = "cpu" if gpus == 0 else device
            how = {"runtime_env": runtime_environment(environment)}
            self._probe = self._write_probe()
            able = able_nodes(self._ray, settings.cpus, gpus)
            apart = check_nodes(self._ray, able, needed_by(waiting, splits, str(self._probe)), how)
            self._check_sharing(apart, waiting, keep)
            here = at_node(self._ray.get_runtime_context().get_node_id())
            store = self._ray.remote(Store).options(num_cpus=0, scheduling_strategy=here, **how)
            self._store = store.remote(str(self._out))
            self._task = self._ray.remote(run_cell).options(
                num_cpus=settings.cpus, num_gpus=gpus, max_retries=RETRIES, **how
            )
        except BaseException:
            self._stack.close()
            raise

    def run(
        self, next_jobs: Callable[[], Sequence[Job]], show: Callable[[Sequence[Running]], None]
    ) -> Iterator[tuple[Job, dict[str, Any]]]:
        """Run jobs until none is left; see `Pool.run`. Jobs that did not begin in time are not yielded."""
        self._changed = True
        try:
            while True:
                self._obey()
                if self._changed and not self._stopping:
                    self._submit(next_jobs())
                if not self._cells:
                    return
                self._read_news()
                show([cell for cell in self._cells.values() if cell.node is not None])
                ready, _ = self._ray.wait(list(self._cells), num_returns=1, timeout=TICK)
                for reference in ready:
                    cell = self._cells.pop(reference)
                    self._changed = True
                    message = self._message(cell)
                    if LEFT not in message:
                        yield cell.job, message
        finally:
            self.close()

    def stop(self, signal: int) -> None:
        """Start no more jobs, and ask all cells to write their checkpoints and end."""
        self._signal = signal  # called inside a signal's handler, where Ray must not be called

    @property
    def running(self) -> set[str]:
        """The identities of the jobs that Ray has."""
        return {cell.job.identity for cell in self._cells.values()}

    def close(self) -> None:
        """Cancel what is left, and leave the cluster."""
        for reference in self._cells:
            with suppress(Exception):
                self._ray.cancel(reference, force=True)
        self._cells = {}
        self._stack.close()

    def _submit(self, jobs: Sequence[Job]) -> None:
        self._changed = False
        for job in jobs:
            reference = self._task.remote(
                job.to_json(), self._store, str(self._probe), os.getcwd(), self._settings.apart
            )
            self._cells[reference] = Cell(job, reference)

    def _obey(self) -> None:
        """Stop after a signal, or when the time is over."""
        over = self._until is not None and time.monotonic() >= self._until
        if self._stopping or (self._signal is None and not over):
            return
        self._stopping = True
        self._ray.get(
            self._store.close.remote() if self._signal is None else self._store.stop.remote(self._signal)
        )
        self._read_news()
        for reference, cell in self._cells.items():
            if cell.node is None:  # it may wait for resources that never come
                self._ray.cancel(reference)

    def _read_news(self) -> None:
        cells = {cell.job.identity: cell for cell in self._cells.values()}
        for identity, message in self._ray.get(self._store.take.remote()):
            cell = cells.get(identity)
            if cell is None:
                continue
            if "node" not in message:
                cell.state = message
                continue
            if cell.node is not None:
                print_note(f"{cell.job.name}: {cell.node} was lost; it goes on at {message['node']}")
            cell.node, cell.state = message["node"], {}

    def _message(self, cell: Cell) -> dict[str, Any]:
        """The last message of a cell whose task has ended; its record is written if it came with it."""
        failures = self._ray.exceptions
        try:
            message: dict[str, Any] = self._ray.get(cell.reference)
        except failures.TaskCancelledError:
            return {LEFT: True}
        except failures.RayError as wrong:
            lines = str(wrong).strip().splitlines() or [""]
            # the last line of an exception's traceback is the exception
            reason = lines[-1] if isinstance(wrong, failures.RayTaskError) else lines[0]
            return {"failed": f"Ray gave it up: {type(wrong).__name__}: {reason}"}
        self._take_over(cell.job, message)
        if "failed" in message:
            message["failed"] = f"on {message['node']}: {message['failed']}"
        return message

    def _take_over(self, job: Job, message: dict[str, Any]) -> None:
        """Write the record and the log that came back with a message."""
        if "log" in message:
            job.log.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(job.log, message.pop("log"))
        if "records" in message:
            packed = self._probe.with_suffix(".records")
            packed.write_bytes(message.pop("records"))
            try:
                Records(self._out).unpack(packed)
            finally:
                packed.unlink()
            kept_file(self._out, job.identity).unlink(missing_ok=True)

    def _write_probe(self) -> Path:
        """A file by which a node sees whether it shares the folder; removed at the end."""
        probe = self._out / f".ray-{uuid.uuid4().hex}"
        self._out.mkdir(parents=True, exist_ok=True)
        probe.touch()
        self._stack.callback(lambda: probe.unlink(missing_ok=True))
        return probe

    def _check_sharing(self, apart: Sequence[str], waiting: Sequence[Planned], keep: bool) -> None:
        """Report nodes that do not see the folder of the comparison; refuse them if weights must be there."""
        if self._settings.apart:
            apart = ["a node"]
        if not apart:
            return
        linked = any(planned.cell.needs for planned in waiting)
        if linked or keep:
            why = "runs of this grid use the weights of others" if linked else "weights are to be kept"
            raise WeftError(f"{why}, and {apart[0]} does not see {self._out}; {put_on_shared()}")
        print_note(f"{apart[0]} does not see {self._out}: records and checkpoints come back through Ray")
