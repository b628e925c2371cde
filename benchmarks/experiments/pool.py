"""A pool of processes for many runs on one machine: a process takes the next run when it has finished one.

A process that has trained a method has its compiled code in memory: the method's next run starts at once,
where a new process would compile for half a minute. So a free process is given a run of a kind that it has
done before, if there is one, else one of a kind that no other process has.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

Work = Callable[[], dict[str, Any]]

PATIENCE = 20.0
"""Seconds that a process has to end by itself."""


class Job(NamedTuple):
    """One run.

    Attributes:
        name: a unique name; also the name of its log.
        kind: runs of the same kind share compiled code.
        work: the function to call; it is pickled.
    """

    name: str
    kind: str
    work: Work


@dataclass
class Worker:
    """A process, the kinds of run it has done, and its current run."""

    process: Any
    line: Any
    kinds: list[str] = field(default_factory=list)
    job: Job | None = None
    since: float = 0.0


def pooled(
    jobs: Sequence[Job],
    folder: Path,
    *,
    at_once: int,
    start: str = "fork",
    stop_starting: float | None = None,
    limit: float | None = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run all jobs; yields (name, result) when a job ends.

    A run that fails yields `{"error": …}`. Its process ends with it, since a GPU's context may be broken, and
    another takes its place. Processes end by themselves where they can: under NVIDIA's MPS one that is killed
    takes all others with it.

    Args:
        jobs: the runs, the most urgent first.
        folder: where logs go, `NAME.log`.
        at_once: how many processes.
        start: `fork` or `spawn`.
        stop_starting: the `time.monotonic()` from which on no further run starts.
        limit: the seconds after which a run is ended, by force.
    """
    folder.mkdir(parents=True, exist_ok=True)
    context: Any = mp.get_context(start)
    waiting = list(jobs)
    workers: list[Worker] = []
    try:
        while True:
            if stop_starting is not None and time.monotonic() >= stop_starting:
                waiting = []
            free = sum(worker.job is None for worker in workers)
            for _ in range(min(at_once - len(workers), len(waiting) - free)):
                workers.append(_worker(context, folder, workers))
            for worker in list(workers):
                if worker.job is None and waiting:
                    refused = _give(worker, waiting, workers)
                    if refused is not None:
                        yield refused
            busy = [worker for worker in workers if worker.job is not None]
            if not busy and not waiting:
                return
            if busy:
                watched = [*(worker.line for worker in busy), *(worker.process.sentinel for worker in busy)]
                wait(watched, timeout=1.0)
            for worker in busy:
                found = _outcome(worker, limit)
                if found is None:
                    continue
                assert worker.job is not None
                name, worker.job = worker.job.name, None
                if "error" in found:
                    workers.remove(worker)
                    _end(worker)
                yield name, found
    finally:
        for worker in workers:
            _end(worker)


def next_job(waiting: Sequence[Job], done: Sequence[str], elsewhere: set[str]) -> Job:
    """Choose the next job for a free process.

    Args:
        waiting: one or more jobs, the most urgent first.
        done: the kinds that this process has done.
        elsewhere: the kinds that other processes have done or do.
    """
    own = [job for job in waiting if job.kind in done]
    new = [job for job in waiting if job.kind not in elsewhere]
    return (own or new or list(waiting))[0]


def _give(worker: Worker, waiting: list[Job], workers: list[Worker]) -> tuple[str, dict[str, Any]] | None:
    """Send a free process its next run; returns the error of a run that cannot be sent to any process."""
    elsewhere = {kind for other in workers if other is not worker for kind in other.kinds}
    job = next_job(waiting, worker.kinds, elsewhere)
    try:
        worker.line.send(job)
    except OSError:  # it died since its last run; a new process replaces it
        workers.remove(worker)
        _end(worker)
        return None
    except Exception:  # this run cannot be pickled
        waiting.remove(job)
        return job.name, {"error": traceback.format_exc()[-2000:]}
    waiting.remove(job)
    worker.job, worker.since = job, time.monotonic()
    worker.kinds.append(job.kind)
    return None


def _worker(context: Any, folder: Path, workers: Sequence[Worker]) -> Worker:
    ours, theirs = context.Pipe()
    # a forked process inherits them, and would not notice that the sender has gone
    forked = context.get_start_method() == "fork"
    not_its_own = [ours, *(worker.line for worker in workers)] if forked else []
    process = context.Process(target=_serve, args=(theirs, folder, not_its_own))
    process.start()
    theirs.close()
    return Worker(process, ours)


def _serve(line: Any, folder: Path, not_its_own: Sequence[Any]) -> None:
    """The main function of a process: run jobs one after another, with their output in the job's log."""
    for other in not_its_own:
        other.close()
    if threads := os.environ.get("OMP_NUM_THREADS"):
        import torch

        torch.set_num_threads(int(threads))
    while True:
        try:
            job = line.recv()
        except EOFError:  # the parent process is gone
            return
        if job is None:
            return
        file = os.open(folder / f"{job.name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.close(file)
        try:
            found = job.work()
            sys.stdout.flush()
            line.send(found)
        except Exception:  # reported to the parent process
            line.send({"error": traceback.format_exc()[-2000:]})
            return


def _outcome(worker: Worker, limit: float | None) -> dict[str, Any] | None:
    """The result of a process, or an error if it has ended or was too slow; None while it runs."""
    if worker.line.poll():
        try:
            return dict(worker.line.recv())
        except (EOFError, OSError):
            worker.process.join(PATIENCE)
            return {"error": f"the process ended with {worker.process.exitcode}"}
        except Exception:  # what it sent is not a result
            return {"error": traceback.format_exc()[-2000:]}
    if not worker.process.is_alive():
        return {"error": f"the process ended with {worker.process.exitcode}"}
    if limit is not None and time.monotonic() - worker.since > limit:
        worker.process.kill()
        return {"error": f"ended after {limit:.0f} s"}
    return None


def _end(worker: Worker) -> None:
    """Dismiss a process that is free or has failed; end one that is working."""
    if worker.job is None:
        with suppress(OSError):  # it may be gone
            worker.line.send(None)
        worker.process.join(PATIENCE)
    worker.process.kill()
    worker.process.join()
    worker.line.close()
