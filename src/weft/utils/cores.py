"""The processor's cores."""

from __future__ import annotations

import os


def cores() -> int:
    """The number of cores that this process may use; a container may have fewer than the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
