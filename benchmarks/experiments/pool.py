"""Many runs on one machine: a few processes that take the next run as soon as they have done one.

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
"""Seconds in which a process is to end by itself."""


class Job(NamedTuple):
    """One run.

    Attributes:
        name: its own; its log has it.
        kind: what runs have in common that share compiled code.
        work: what to call; it is pickled.
    """

    name: str
    kind: str
    work: Work


@dataclass
class Worker:
    """A process, what it has done and what it does."""

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
    """Run all; yields (name, what it returned) as each ends.

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
    """Of what waits, the run for a process that is free.

    Args:
        waiting: one job or more, the most urgent first.
        done: the kinds that this process has done.
        elsewhere: the kinds that other processes have done or do.
    """
    own = [job for job in waiting if job.kind in done]
    new = [job for job in waiting if job.kind not in elsewhere]
    return (own or new or list(waiting))[0]


def _give(worker: Worker, waiting: list[Job], workers: list[Worker]) -> tuple[str, dict[str, Any]] | None:
    """Give a free process its next run; what there is to tell if that run cannot be given to any."""
    elsewhere = {kind for other in workers if other is not worker for kind in other.kinds}
    job = next_job(waiting, worker.kinds, elsewhere)
    try:
        worker.line.send(job)
    except OSError:  # it died since its last run; another takes its place
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
    # a fork has them too, and would never see that nobody is left to send it anything
    forked = context.get_start_method() == "fork"
    not_its_own = [ours, *(worker.line for worker in workers)] if forked else []
    process = context.Process(target=_serve, args=(theirs, folder, not_its_own))
    process.start()
    theirs.close()
    return Worker(process, ours)


def _serve(line: Any, folder: Path, not_its_own: Sequence[Any]) -> None:
    """In the new process: one run after the other, all that it prints in the run's log."""
    for other in not_its_own:
        other.close()
    if threads := os.environ.get("OMP_NUM_THREADS"):
        import torch

        torch.set_num_threads(int(threads))
    while True:
        try:
            job = line.recv()
        except EOFError:  # whoever started it is gone
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
        except Exception:  # told to whoever started it
            line.send({"error": traceback.format_exc()[-2000:]})
            return


def _outcome(worker: Worker, limit: float | None) -> dict[str, Any] | None:
    """What a process has sent, or that it has ended or is ended, being too slow; None while it runs."""
    if worker.line.poll():
        try:
            return dict(worker.line.recv())
        except (EOFError, OSError):
            worker.process.join(PATIENCE)
            return {"error": f"the process ended with {worker.process.exitcode}"}
        except Exception:  # what it sent is no result
            return {"error": traceback.format_exc()[-2000:]}
    if not worker.process.is_alive():
        return {"error": f"the process ended with {worker.process.exitcode}"}
    if limit is not None and time.monotonic() - worker.since > limit:
        worker.process.kill()
        return {"error": f"ended after {limit:.0f} s"}
    return None


def _end(worker: Worker) -> None:
    """Let a process that is free go, or one that has failed; end one that works."""
    if worker.job is None:
        with suppress(OSError):  # it may be gone
            worker.line.send(None)
        worker.process.join(PATIENCE)
    worker.process.kill()
    worker.process.join()
    worker.line.close()
