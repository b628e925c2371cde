"""The device that a command uses."""

from __future__ import annotations

from weft.errors import WeftError
from weft.utils import launch_env as launched


def device_of(asked: str | None) -> str:
    """The device asked for, if it is there; by default a GPU if there is one."""
    import torch

    if asked is None:
        asked = "cuda" if torch.cuda.is_available() else "cpu"
    if asked == "cuda" and launched.world() > 1:
        asked = f"cuda:{launched.local_rank()}"  # of processes started together, each has a GPU of its own
    if asked == "meta":
        raise WeftError("device 'meta' holds no numbers to compute with; expected cpu, cuda, …")
    try:
        torch.empty(1, device=asked)
    except (RuntimeError, AssertionError, NotImplementedError) as wrong:
        raise WeftError(f"device {asked!r} cannot be used: {str(wrong).splitlines()[0]}") from None
    return asked
