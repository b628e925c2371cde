"""The machine that something ran on, and the versions of what it ran with."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from weft.utils.version import __version__


def machine() -> dict[str, Any]:
    """The device, the cores and the versions, for records and logs."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "device": gpu or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "weft": __version__,
    }


def environment() -> dict[str, Any]:
    """The machine, and further versions that a reader of a run's log may want to know."""
    import torch

    return {
        **machine(),
        "transformers": _installed("transformers"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
    }


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
