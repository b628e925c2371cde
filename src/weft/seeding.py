"""Random numbers that depend on names, not on the order in which things are built."""

from __future__ import annotations

import hashlib

import torch


def generator(seed: int, *names: str) -> torch.Generator:
    """A CPU generator for one parameter of one owner.

    A start value drawn from `generator(seed, owner, site, parameter)` stays the same whatever other
    tasks, methods or sites the model has: methods can be compared from equal heads, and a task added
    later starts as it would have started at first.
    """
    digest = hashlib.sha256("\x00".join((str(seed), *names)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
