"""What a launcher (`torchrun`, `accelerate launch`) tells each process. No torch is imported."""

from __future__ import annotations

import os

TOLD = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def world() -> int:
    """How many processes were started together; 1 without a launcher."""
    return int(os.environ["WORLD_SIZE"]) if all(os.environ.get(name) for name in TOLD) else 1


def rank() -> int:
    """The number of this process among them."""
    return int(os.environ["RANK"]) if world() > 1 else 0


def local_rank() -> int:
    """Its number on this machine, which is that of its GPU."""
    return int(os.environ.get("LOCAL_RANK", "0")) if world() > 1 else 0
