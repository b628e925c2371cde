"""The machine and the libraries of a run."""

from __future__ import annotations

import os
import platform
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

LIBRARIES = ("torch", "transformers", "peft", "accelerate")


def machine(device: torch.device) -> dict[str, object]:
    """The processor, the GPU if there is one, the number of threads, and versions."""
    told: dict[str, object] = {
        "device": device.type,
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: _version(name) for name in LIBRARIES},
    }
    if device.type == "cuda":
        told |= {"gpu": torch.cuda.get_device_name(device), "cuda": torch.version.cuda}
    return told


def in_words(told: dict[str, object]) -> str:
    """The same in one line."""
    where = f"{told['gpu']}, CUDA {told['cuda']}" if "gpu" in told else f"{told['processor']}"
    libraries = ", ".join(f"{name} {told[name]}" for name in LIBRARIES)
    return f"{where}; {told['cores']} cores, {told['threads']} threads; Python {told['python']}, {libraries}"


def processor() -> str:
    """The name of the processor, if the system has it."""
    file = Path("/proc/cpuinfo")
    if file.is_file():
        for line in file.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def half_precision(device: torch.device) -> AbstractContextManager[object]:
    """The precision of every variant: bf16 autocast on a GPU, float32 on a CPU."""
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()


def synchronise(device: torch.device) -> None:
    """Wait until the device has finished all work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
