"""Workers of `weft compare` that are forked: they start in milliseconds.

`python -m weft.experiments.worker` first imports torch, which takes longer than all cells of a tiny grid.
With the fixture `warm_workers`, the workers of a pool run the same `main`, with the same pipes and
environment, in children of the fork server. One test of tests/experiments/test_pool.py starts a real one;
so do, in `make test-all`, its other tests and one of those that kill grids.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.fork_server import context
from weft.experiments import pool

COMMAND = [sys.executable, "-m", "weft.experiments.worker"]


class WarmWorker:
    """In the place of `subprocess.Popen`, with what a pool uses of it."""

    context: Any = context

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], **how: Any) -> None:
        assert list(command) == COMMAND
        assert how == {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "start_new_session": True}
        jobs, to_worker = Pipe(duplex=False)
        from_worker, messages = Pipe(duplex=False)
        self._process = self.context.Process(target=_work, args=(jobs, messages, dict(env)))
        self._process.start()
        self.pid = self._process.pid
        self.stdin = os.fdopen(os.dup(to_worker.fileno()), "wb")
        self.stdout = os.fdopen(os.dup(from_worker.fileno()), "rb")
        for connection in (jobs, to_worker, from_worker, messages):
            connection.close()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; the exit code, or minus the signal that killed it."""
        self._process.join(timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(COMMAND, timeout or 0.0)
        return code

    def poll(self) -> int | None:
        """The exit code; None: it runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()


class WorkerOfChild(WarmWorker):
    """Forked from a child of the fork server, which has no server of its own, and no threads."""

    context = multiprocessing.get_context("fork")


def use_warm_workers(patch: pytest.MonkeyPatch, worker: type[WarmWorker] = WarmWorker) -> None:
    """Let pools start such workers until the patch is undone."""
    names = {"Popen": worker, "PIPE": subprocess.PIPE, "TimeoutExpired": subprocess.TimeoutExpired}
    patch.setattr(pool, "subprocess", SimpleNamespace(**names))


def start_warm(grid: Path, out: Path, jobs: int = 2) -> Any:
    """Run a grid in a child of the fork server that can be killed; returns the process."""
    process = context.Process(target=_run_grid, args=(grid, out, jobs))
    process.start()
    return process


def _run_grid(grid: Path, out: Path, jobs: int) -> None:
    from tests.support.tiny_grid import run_here

    os.setsid()
    os.environ["OMP_NUM_THREADS"] = "1"
    with pytest.MonkeyPatch.context() as patch:
        use_warm_workers(patch, WorkerOfChild)
        run_here(grid, out, jobs=jobs)


def _work(jobs: Connection, messages: Connection, environment: dict[str, str]) -> None:
    import torch

    from weft.experiments import worker

    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(jobs.fileno(), 0)
    os.dup2(messages.fileno(), 1)
    # as `Popen` does it: a copy of the other end of a pipe would hide that the caller is gone
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))  # torch reads the variable when it is imported
    worker.main()
