"""Tiny grids, and a process that runs one and can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT
from tests.support.tiny_run import write_run
from weft.experiments.compared import Compared
from weft.experiments.display import Silent
from weft.experiments.grid import load_grid
from weft.experiments.records import Record
from weft.experiments.run_grid import run_grid

CALL = (
    "import sys; from weft.experiments.grid import load_grid; from weft.experiments.run_grid import run_grid;"
    "print(run_grid(load_grid(sys.argv[1]), sys.argv[2], jobs=int(sys.argv[3]), device='cpu').steps)"
)


def write_grid(folder: Path, text: str, **train: Any) -> Path:
    """A run file with three tiny tasks, and a grid over it; returns the grid's file."""
    write_run(folder, **train)
    path = folder / "grid.yaml"
    path.write_text(f"title: tiny\nbase: run.yaml\n{text}")
    return path


def run_here(grid: Path, out: Path, **settings: Any) -> Compared:
    """Run a grid from this process, without a display."""
    overrides = settings.pop("overrides", ())
    quiet: Any = lambda cells, done: Silent()  # noqa: E731
    return run_grid(load_grid(grid, overrides), out, device="cpu", display=quiet, **settings)


def start(grid: Path, out: Path, jobs: int = 2) -> subprocess.Popen[str]:
    """Run a grid in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", CALL, str(grid), str(out), str(jobs)],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def running(process: Any) -> bool:
    """Whether a process of `start`, or of `start_warm`, has not ended."""
    return process.poll() is None if isinstance(process, subprocess.Popen) else process.is_alive()


def kill(process: Any) -> None:
    """Kill the calling process alone: its workers notice by themselves."""
    process.kill()
    process.communicate() if isinstance(process, subprocess.Popen) else process.join()


def untimed(record: Record) -> dict[str, Any]:
    """What is in a record but for measured seconds and memory."""
    facts = json.loads(json.dumps(record.__dict__))
    for key in ("seconds", "memory"):
        facts.pop(key)
    for name in ("examples_per_second", "speed"):
        facts["measures"].pop(name, None)
    return facts


def results(compared: Compared) -> dict[str, Any]:
    """All records of a comparison without what was measured."""
    return {
        name: None if planned.record is None else untimed(planned.record)
        for name, planned in sorted(compared.plan.cells.items())
    }
