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
from contextlib import contextmanager
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
PROBE = "import torch; torch.ones(2, device='cuda').sum().item()"


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
    with tempfile.TemporaryDirectory(prefix="weft-mps-") as folder:
        variables = {
            "CUDA_MPS_PIPE_DIRECTORY": str(Path(folder) / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(Path(folder) / "log"),
        }
        for path in variables.values():
            Path(path).mkdir()
        environment = {**os.environ, **variables}
        started = subprocess.run(
            [control, "-d"], capture_output=True, text=True, env=environment, check=False
        )
        try:
            if started.returncode == 0 and _works(environment):
                yield variables
            else:
                why = (started.stderr or started.stdout).strip() or "no process could use the GPU through it"
                tell(f"MPS does not work here ({why}): {jobs} runs at once take turns on the GPU")
                yield {}
        finally:
            subprocess.run(
                [control],
                input="quit\n",
                capture_output=True,
                text=True,
                env=environment,
                timeout=60,
                check=False,
            )


def has_gpu() -> bool:
    """Whether this machine has an NVIDIA GPU, without asking CUDA."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return False
    listed = subprocess.run([smi, "-L"], capture_output=True, text=True, check=False)
    return listed.returncode == 0 and "GPU" in listed.stdout


def _works(environment: dict[str, str]) -> bool:
    probe = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, env=environment, check=False)
    return probe.returncode == 0
