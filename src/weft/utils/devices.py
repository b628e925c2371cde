"""The device that a model runs on."""

from __future__ import annotations

from weft.errors import WeftError, words
from weft.utils import launch_env


def device_of(device: str | None) -> str:
    """Return the name of a usable device; None selects a GPU if there is one, else the CPU."""
    import torch

    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and launch_env.world() > 1:
        device = f"cuda:{launch_env.local_rank()}"  # one GPU per process of a launcher
    if device == "meta":
        raise WeftError("device 'meta' holds no numbers to compute with; expected cpu, cuda, …")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as wrong:
        raise WeftError(
            f"device {device!r} cannot be used: {str(wrong).splitlines()[0]}; use "
            f"{words('--device cpu', 'device=' + repr('cpu'))}, or install "
            "PyTorch for this device"
        ) from None
    return device
