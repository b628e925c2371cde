"""Several processes on one GPU: NVIDIA's MPS lets their kernels run at the same time.

A run of a small encoder uses a fraction of a large GPU. Without MPS the processes take turns; with it they
share the GPU. The daemon has folders of its own while a grid runs, so that other programs do not notice it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
PROBE = "import torch; torch.ones(2, device='cuda').sum().item()"
PATIENCE = 120.0
"""The seconds that each of NVIDIA's programs, and the first process on the GPU, may take."""
DEVICES = Path("/dev")


@contextmanager
def shared_gpu(jobs: int, device: str | None, tell: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """Yield the environment variables of processes that share a GPU; {} if they do not.

    Args:
        jobs: how many processes run at once.
        device: the device of the runs; None: a GPU if there is one.
        tell: called with the reason if processes will take turns on the GPU.
    """
    control = shutil.which(CONTROL)
    wants_gpu = device is None or device.startswith("cuda")
    if jobs < 2 or not wants_gpu or not has_gpu() or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield {}
        return
    if control is None:
        tell(f"there is no {CONTROL} here: {jobs} runs at once take turns on the GPU")
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="weft-mps-", ignore_cleanup_errors=True) as folder:
        variables = {
            "CUDA_MPS_PIPE_DIRECTORY": str(Path(folder) / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(Path(folder) / "log"),
        }
        for path in variables.values():
            Path(path).mkdir()
        environment = {**os.environ, **variables}
        try:
            why = _started(control, environment, Path(folder) / "started")
            if why is None:
                yield variables
            else:
                tell(f"MPS does not work here ({why}): {jobs} runs at once take turns on the GPU")
                yield {}
        finally:
            _quit(control, environment, Path(folder) / "quit")


def _started(control: str, environment: dict[str, str], log: Path) -> str | None:
    """Start the daemon, and let one process use the GPU through it; returns why it does not work."""
    try:
        # to a file: a daemon that keeps a pipe open would never let go of whoever reads it
        with log.open("wb") as file:
            daemon = subprocess.run(
                [control, "-d"], stdout=file, stderr=file, env=environment, timeout=PATIENCE, check=False
            )
        if daemon.returncode != 0:
            return log.read_text(errors="replace").strip() or f"{CONTROL} ended with {daemon.returncode}"
        probe = [sys.executable, "-c", PROBE]
        used = subprocess.run(probe, capture_output=True, env=environment, timeout=PATIENCE, check=False)
    except (subprocess.TimeoutExpired, OSError) as failed:
        return str(failed)
    return None if used.returncode == 0 else "no process could use the GPU through it"


def _quit(control: str, environment: dict[str, str], log: Path) -> None:
    with suppress(subprocess.TimeoutExpired, OSError), log.open("wb") as file:
        subprocess.run(
            [control], input=b"quit\n", stdout=file, stderr=file, env=environment, timeout=60, check=False
        )


def has_gpu() -> bool:
    """Whether this machine has an NVIDIA GPU, without asking CUDA."""
    smi = shutil.which("nvidia-smi")
    if smi is not None:
        listed = subprocess.run([smi, "-L"], capture_output=True, text=True, check=False)
        return listed.returncode == 0 and "GPU" in listed.stdout
    return any(DEVICES.glob("nvidia[0-9]*"))  # a container may have the GPU without the program
