"""A pool of worker processes: each takes the next cell when it has finished one.

A process that has trained a method has its compiled code in memory, and the method's next run starts at once.
So a free process is given a cell of a kind that it has run before, if there is one, else one of a kind that
no other process has run.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from weft.experiments.job import Job

TICK = 0.25
"""The seconds after which the display is drawn again."""


class Running(Protocol):
    """A cell that runs, as displays show it."""

    @property
    def job(self) -> Job | None:
        """The cell."""
        ...

    @property
    def state(self) -> Mapping[str, Any]:
        """The last progress message of the cell; empty: there is none yet."""
        ...


class CellPool(Protocol):
    """What runs cells: processes of this machine, or a Ray cluster (`weft.experiments.ray_pool`)."""

    def run(
        self, next_jobs: Callable[[], Sequence[Job]], show: Callable[[Sequence[Running]], None]
    ) -> Iterator[tuple[Job, dict[str, Any]]]:
        """Run jobs until none is left; yields each job with its last message. See `Pool.run`."""
        ...

    def stop(self, signal: int) -> None:
        """Start no more jobs, and let those that run write their checkpoints."""
        ...

    @property
    def running(self) -> set[str]:
        """The identities of the jobs that were taken and have not ended."""
        ...

    def close(self) -> None:
        """End all jobs."""
        ...


@dataclass
class Worker:
    """A worker process.

    Attributes:
        process: the process.
        kinds: the kinds of cells it has run.
        job: the cell it runs; None: it is free.
        state: the last progress message of that cell.
        since: when the cell began, by `time.monotonic()`.
        number: the smallest number from 0 that no other worker of the pool has.
    """

    process: subprocess.Popen[bytes]
    kinds: list[str] = field(default_factory=list)
    job: Job | None = None
    state: dict[str, Any] = field(default_factory=dict)
    since: float = 0.0
    number: int = 0
    _rest: bytes = b""

    def give(self, job: Job) -> None:
        """Send the worker a cell."""
        assert self.process.stdin is not None
        self.process.stdin.write(job.to_json().encode() + b"\n")
        self.process.stdin.flush()
        self.job, self.state, self.since = job, {}, time.monotonic()
        self.kinds.append(job.kind)

    def messages(self) -> Iterator[dict[str, Any]]:
        """The messages that have arrived; `{"gone": exit code}` if the process has ended."""
        assert self.process.stdout is not None
        content = os.read(self.process.stdout.fileno(), 1 << 16)
        if not content:
            yield {"gone": self.process.wait()}
            return
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            yield json.loads(line)

    def end(self) -> None:
        """End a worker; one that works is ended as if it were killed."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Pool:
    """Runs jobs in several processes.

    Args:
        jobs: how many processes.
        environment: environment variables of the processes, over those of this one. WEFT_WORKER is the number
            of the worker.
        module: the module that the processes run.
    """

    def __init__(
        self,
        jobs: int,
        environment: Mapping[str, str] | None = None,
        module: str = "weft.experiments.worker",
    ) -> None:
        self.size, self._module = jobs, module
        self.workers: list[Worker] = []
        self._environment = {**os.environ, **(environment or {})}
        self._selector = selectors.DefaultSelector()
        self._stopping = False

    def run(
        self,
        next_jobs: Callable[[], Sequence[Job]],
        show: Callable[[Sequence[Running]], None],
        keep: bool = False,
    ) -> Iterator[tuple[Job, dict[str, Any]]]:
        """Run jobs until none is left; yields each job with the last message of its worker.

        Args:
            next_jobs: returns the jobs that can start now, the most urgent first, without those in `running`.
            show: called with the workers several times a second.
            keep: whether workers stay for the next call, if no job is broken off.
        """
        try:
            while True:
                if not self._stopping and self._has_room:
                    self._start(list(next_jobs()))
                busy = [worker for worker in self.workers if worker.job is not None]
                if not busy:
                    return
                show(busy)
                for key, _ in self._selector.select(timeout=TICK):
                    worker: Worker = key.data
                    for message in worker.messages():
                        if job := self._take(worker, message):
                            yield job, message
        finally:
            if not keep or self.running:
                self.close()

    def stop(self, signal: int) -> None:
        """Start no more jobs, and ask all workers to write their checkpoints and end."""
        self._stopping = True
        for worker in self.workers:
            if worker.job is not None:
                with suppress(OSError):
                    worker.process.send_signal(signal)

    @property
    def _has_room(self) -> bool:
        return len(self.workers) < self.size or any(worker.job is None for worker in self.workers)

    @property
    def running(self) -> set[str]:
        """The identities of the jobs that run."""
        return {worker.job.identity for worker in self.workers if worker.job is not None}

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            with suppress(KeyError, ValueError):
                self._selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
            worker.end()
        self.workers = []

    def _start(self, ready: list[Job]) -> None:
        """Give every free worker a job, and start workers if there are too few."""
        while ready:
            free = [worker for worker in self.workers if worker.job is None]
            if not free and len(self.workers) < self.size:
                free = [self._new_worker()]
            if not free:
                return
            worker = free[0]
            elsewhere = {kind for other in self.workers if other is not worker for kind in other.kinds}
            job = next_job(ready, worker.kinds, elsewhere)
            try:
                worker.give(job)
                ready.remove(job)
            except OSError:  # it has died since its last job; another one takes its place
                self._drop(worker)

    def _new_worker(self) -> Worker:
        command = [sys.executable, "-m", self._module]
        number = min(set(range(len(self.workers) + 1)) - {worker.number for worker in self.workers})
        # a session of its own: Ctrl-C reaches this process, which then asks the workers to stop
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**self._environment, "WEFT_WORKER": str(number)},
            start_new_session=True,
        )
        worker = Worker(process, number=number)
        assert process.stdout is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, worker)
        self.workers.append(worker)
        return worker

    def _take(self, worker: Worker, message: dict[str, Any]) -> Job | None:
        """Note a message; returns the worker's job if it has ended."""
        if "step" in message:
            worker.state = message
            return None
        job, worker.job = worker.job, None
        if "gone" in message:
            message.setdefault("failed", f"the process ended with {message['gone']}")
            self._drop(worker)
        elif "broken" in message:  # a GPU's context may be broken
            self._drop(worker)
        return job

    def _drop(self, worker: Worker) -> None:
        if worker in self.workers:
            self.workers.remove(worker)
            with suppress(KeyError, ValueError):
                self._selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
            worker.end()


def next_job(waiting: Sequence[Job], done: Sequence[str], elsewhere: set[str]) -> Job:
    """Choose the next job for a free process.

    Args:
        waiting: one or more jobs, the most urgent first.
        done: the kinds that this process has run.
        elsewhere: the kinds that other processes have run or run now.
    """
    compiled = [job for job in waiting if job.kind in done]
    new = [job for job in waiting if job.kind not in elsewhere]
    return (compiled or new or list(waiting))[0]
