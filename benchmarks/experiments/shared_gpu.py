"""Support for several processes on one GPU: environment settings, the start method, and NVIDIA's MPS.

Processes are forked from one that has read the data and has not used the GPU, so they start at once. With
MPS their kernels run on the GPU at the same time; without it they take turns.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.experiments.pool import Job, pooled


def temporary(name: str) -> Path:
    """A folder of this name in the machine's folder for temporary files."""
    return Path(tempfile.gettempdir()) / name


def prepare_environment(jobs: int) -> None:
    """Set environment variables that torch reads on import, unless the user has set them.

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
    """Import what every run needs without starting threads, which do not survive a fork."""
    import torch
    import torch._inductor.compile_fx

    import weft.model.model
    import weft.training.run.run  # noqa: F401

    torch.set_num_threads(1)


def start_method() -> tuple[str, dict[str, Any]]:
    """The start method of processes that works here, and the device that such a process has."""
    for start in ("fork", "spawn"):
        found = _probed(start)
        if "error" not in found:
            return start, found
        print(f"no process by {start} can use the GPU: {found['error'].strip().splitlines()[-1]}", flush=True)
    raise SystemExit("no process could be started")


@contextmanager
def mps(wanted: bool) -> Iterator[bool]:
    """Run NVIDIA's MPS daemon with separate folders; yields False, with a message, if there is none."""
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
        found = _probed("spawn")
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


def _probed(start: str) -> dict[str, Any]:
    """The facts that a process reports which is started in this way."""
    ((_, found),) = pooled([Job("probe", "probe", _probe)], temporary("weft-probe"), at_once=1, start=start)
    return found


def _probe() -> dict[str, Any]:
    """The device of this process."""
    import torch

    if not torch.cuda.is_available():
        return {"device": "cpu"}
    torch.ones(2, device="cuda").sum().item()
    return {"device": torch.cuda.get_device_name()}
