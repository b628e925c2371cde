"""Many runs on one machine: a process each, so many at a time, each with a log of its own.

Processes are forked from one that has read the data and has not touched the GPU: they start in no time. With
NVIDIA's MPS their kernels run on the GPU at the same time; without it they take turns.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

Work = Callable[[], dict[str, Any]]


@dataclass
class Started:
    """A process that runs."""

    name: str
    process: Any
    result: Path
    log: Path
    since: float


def temporary(name: str) -> Path:
    """A folder of this name where the machine keeps what does not last."""
    return Path(tempfile.gettempdir()) / name


def prepare_environment(jobs: int) -> None:
    """Settings that must stand before torch is imported, where the user has not set them.

    Args:
        jobs: how many processes run at a time.
    """
    cores = str(max(1, (os.cpu_count() or 1) // jobs))
    for name, value in {
        "OMP_NUM_THREADS": cores,
        "TORCHINDUCTOR_COMPILE_THREADS": cores,  # by default each process starts a worker for every core
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",  # the second rate of a method finds what the first compiled
        "TOKENIZERS_PARALLELISM": "true",
        # ask the driver's library how many GPUs there are: CUDA itself cannot be used on both sides of a fork
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    }.items():
        os.environ.setdefault(name, value)


def import_for_children() -> None:
    """Import what every run needs, and start no thread for arithmetic: threads do not survive a fork."""
    import torch
    import torch._inductor.compile_fx

    import weft.model
    import weft.training.run  # noqa: F401

    torch.set_num_threads(1)


def side_by_side(
    jobs: Sequence[tuple[str, Work]],
    folder: Path,
    *,
    at_once: int,
    start: str = "fork",
    stop_starting: float | None = None,
    limit: float | None = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run all, in this order; yields (name, what it returned) as each ends.

    A run that fails yields `{"error": …}`, and the others go on.

    Args:
        jobs: names, each with what to call.
        folder: where logs and results go.
        at_once: how many processes.
        start: `fork`, or `spawn`, for which calls must be picklable and find their data themselves.
        stop_starting: the `time.monotonic()` from which on no further run starts.
        limit: the seconds after which a run is ended.
    """
    folder.mkdir(parents=True, exist_ok=True)
    context: Any = mp.get_context(start)
    waiting = list(jobs)
    running: list[Started] = []
    try:
        while waiting or running:
            if stop_starting is not None and time.monotonic() >= stop_starting:
                waiting = []
            while waiting and len(running) < at_once:
                running.append(_started(context, *waiting.pop(0), folder))
            if not running:
                continue
            wait([one.process.sentinel for one in running], timeout=1.0)
            for one in list(running):
                late = limit is not None and time.monotonic() - one.since > limit
                if late and one.process.is_alive():
                    one.process.kill()
                    one.process.join()
                if not one.process.is_alive():
                    one.process.join()
                    running.remove(one)
                    yield one.name, _outcome(one, f"ended after {limit:.0f} s" if late else None)
    finally:
        for one in running:
            one.process.kill()
            one.process.join()


def start_method() -> tuple[str, dict[str, Any]]:
    """How processes can be started here, and the device that such a one finds."""
    for start in ("fork", "spawn"):
        ((_, found),) = side_by_side([("probe", _probe)], temporary("weft-probe"), at_once=1, start=start)
        if "error" not in found:
            return start, found
        print(f"no process by {start} can use the GPU: {found['error'].strip().splitlines()[-1]}", flush=True)
    raise SystemExit("no process could be started")


@contextmanager
def mps(wanted: bool) -> Iterator[bool]:
    """NVIDIA's MPS daemon while it lasts, with folders of its own; false, and a line, where there is none."""
    control = shutil.which("nvidia-cuda-mps-control")
    if not wanted or control is None:
        if wanted:
            print("without MPS: there is no nvidia-cuda-mps-control; runs take turns on the GPU", flush=True)
        yield False
        return
    names = {"CUDA_MPS_PIPE_DIRECTORY": "weft-mps", "CUDA_MPS_LOG_DIRECTORY": "weft-mps-log"}
    folders = {variable: str(temporary(name)) for variable, name in names.items()}
    for folder in folders.values():
        Path(folder).mkdir(exist_ok=True)
    os.environ.update(folders)
    failed = subprocess.run([control, "-d"], capture_output=True, text=True, check=False)
    works = failed.returncode == 0
    if works:
        ((_, found),) = side_by_side([("probe", _probe)], temporary("weft-probe"), at_once=1, start="spawn")
        works = "error" not in found and found["device"] != "cpu"
    try:
        if not works:
            _quit(control)
            for name in folders:
                os.environ.pop(name)
            why = (failed.stderr or failed.stdout).strip() or "no process could use the GPU through it"
            print(f"without MPS: {why}; runs take turns on the GPU", flush=True)
        yield works
    finally:
        if works:
            _quit(control)


def _quit(control: str) -> None:
    subprocess.run([control], input="quit\n", capture_output=True, text=True, timeout=30, check=False)


def _probe() -> dict[str, Any]:
    """The device that a process finds."""
    import torch

    if not torch.cuda.is_available():
        return {"device": "cpu"}
    torch.ones(2, device="cuda").sum().item()
    return {"device": torch.cuda.get_device_name()}


def _started(context: Any, name: str, work: Work, folder: Path) -> Started:
    result, log = folder / f"{name}.json", folder / f"{name}.log"
    result.unlink(missing_ok=True)
    process = context.Process(target=_child, args=(work, result, log))
    process.start()
    return Started(name, process, result, log, time.monotonic())


def _child(work: Work, result: Path, log: Path) -> None:
    """In the new process: everything that is printed, by libraries in C too, goes to the log."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    if threads := os.environ.get("OMP_NUM_THREADS"):
        import torch

        torch.set_num_threads(int(threads))
    found = work()
    writing = result.with_suffix(".writing")
    writing.write_text(json.dumps(found))
    writing.rename(result)
    sys.stdout.flush()
    sys.stderr.flush()


def _outcome(one: Started, why: str | None) -> dict[str, Any]:
    if one.result.is_file():
        return dict(json.loads(one.result.read_text()))
    said = one.log.read_text(errors="replace")[-2000:] if one.log.is_file() else ""
    return {"error": why or said or f"exit status {one.process.exitcode}"}
