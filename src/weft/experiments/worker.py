"""A worker process: it runs cells one after another, as `python -m weft.experiments.worker`.

It reads jobs from its standard input, one line of JSON each, and writes messages to its standard output:
`{"step": …, "total": …, "score": …}` while a cell runs, then `{"done": IDENTITY, …}` or `{"failed": REASON}`.
The record is written by the worker before it reports the end, so that nothing is lost if the calling process
is killed. When its standard input ends, the caller is gone, and the worker ends at once, as if killed.

A process of its own, not a fork or a thread: the caller needs no torch, a crash ends one cell only, and
compiled code stays in memory for the next cell of the same kind.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from weft.errors import Diverged, WeftError, command_line
from weft.experiments.actions import ACTIONS, TRAIN, Outcome
from weft.experiments.cell_memory import memory_before, peak_memory
from weft.experiments.job import Job
from weft.experiments.records import Record, Records
from weft.utils.machine import machine

EVERY = 0.5
"""The seconds between two reports of a cell's progress."""
LOCKED = 10.0
"""The seconds to wait for a folder that a worker of a killed call may still hold."""


class Line:
    """The connection to the caller, and the log of the cell that runs.

    Args:
        out: the stream of messages.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._last = 0.0
        self._score: float | None = None

    def send(self, **message: Any) -> None:
        """Send one message."""
        self._out.write(json.dumps(message, default=str) + "\n")
        self._out.flush()

    def step(self, done: int, total: int, score: float | None) -> None:
        """See `Reporter`; most steps are not sent."""
        now = time.monotonic()
        if now - self._last < EVERY and score == self._score and done < total:
            return
        self._last, self._score = now, score
        self.send(step=done, total=total, score=score)

    def say(self, text: str) -> None:
        """See `Reporter`."""
        print(text, flush=True)


def main() -> None:
    """Run jobs until there are no more."""
    line = Line(os.fdopen(os.dup(1), "w"))
    jobs: queue.Queue[Job] = queue.Queue()
    idle = threading.Event()
    idle.set()
    threading.Thread(target=_listen, args=(jobs, idle), daemon=True).start()
    _to_log(Path(os.devnull))  # whatever prints must not reach the caller
    while True:
        job = jobs.get()
        idle.clear()
        _to_log(job.log)
        try:
            with command_line():  # messages name the options of `weft compare` and keys of files
                message = run_job(job, line)
        except WeftError as wrong:
            traceback.print_exc()
            message = {"failed": str(wrong), "identity": job.identity, "lasting": isinstance(wrong, Diverged)}
        except Exception as wrong:
            traceback.print_exc()
            reason = f"{type(wrong).__name__}: {wrong}"
            message = {"failed": f"{reason} (see {job.log})", "identity": job.identity, "broken": True}
        sys.stdout.flush()
        _wait_for_gpu()
        idle.set()
        line.send(**message)


def run_job(job: Job, line: Line) -> dict[str, Any]:
    """Run one cell, write its record and delete its folder; returns the last message."""
    from weft.training.run.interrupt import Interrupted

    began = time.perf_counter()
    name = next(iter(job.action), TRAIN)
    before = memory_before()
    try:
        outcome = patiently(lambda: ACTIONS[name](job, line))
    except Interrupted as stopped:
        return {"interrupted": stopped.step, "identity": job.identity}
    Records(Path(job.out)).write(record_of(job, outcome, time.perf_counter() - began, before))
    if not job.keep:
        shutil.rmtree(job.run_folder, ignore_errors=True)
    return {"done": job.identity, "steps": outcome.steps}


def patiently(work: Any) -> Outcome:
    """Call `work`; if its folder is locked, wait a little: a worker of a killed call may still be ending."""
    from weft.utils.lock_file import LockHeld

    until = time.monotonic() + LOCKED
    while True:
        try:
            found: Outcome = work()
            return found
        except LockHeld:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def record_of(job: Job, outcome: Outcome, seconds: float, before: int) -> Record:
    """The record of a cell that has ended."""
    return Record(
        identity=job.identity,
        settings=outcome.settings,
        metrics=outcome.metrics,
        chosen_by=outcome.chosen_by,
        rows=outcome.rows,
        statistics=outcome.statistics,
        curve=outcome.curve,
        losses=outcome.losses,
        trace=outcome.trace,
        parameters=outcome.parameters,
        seconds={**outcome.seconds, "all": round(seconds, 2)},
        memory=peak_memory(before),
        machine=machine(),
        step=outcome.step,
        measures=outcome.measures,
    )


def _listen(jobs: queue.Queue[Job], idle: threading.Event) -> None:
    for line in sys.stdin:
        jobs.put(Job.from_json(line))
    if idle.is_set():
        _wait_for_gpu()
    os._exit(0)  # the caller is gone, or wants no more


def _wait_for_gpu() -> None:
    """Wait until the GPU has done all work of this process.

    Under MPS a process that ends with work on the GPU may disturb those that it shares the GPU with.
    """
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        with suppress(RuntimeError):  # the error that ended the cell
            torch.cuda.synchronize()


def _to_log(path: Path) -> None:
    """Send everything that is printed to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


if __name__ == "__main__":
    main()
