"""Environment variables that a launcher (`torchrun`, `accelerate launch`) sets. No torch is imported."""

from __future__ import annotations

import os

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def world() -> int:
    """Return the number of processes that were started together; 1 without a launcher."""
    return int(os.environ["WORLD_SIZE"]) if all(os.environ.get(name) for name in VARIABLES) else 1


def rank() -> int:
    """Return the rank of this process, from 0."""
    return int(os.environ["RANK"]) if world() > 1 else 0


def local_rank() -> int:
    """Return the rank of this process on its machine, which is also the index of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0")) if world() > 1 else 0
