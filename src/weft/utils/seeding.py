"""Random numbers that depend on names, not on the order in which things are built."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def derived(seed: int, *names: str) -> int:
    """Another seed, from a seed and names."""
    digest = hashlib.sha256("\x00".join((str(seed), *names)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def generator(seed: int, *names: str) -> torch.Generator:
    """A CPU generator for one parameter of one owner.

    A start value drawn from `generator(seed, owner, site, parameter)` stays the same whatever other
    tasks, methods or sites the model has: methods can be compared from equal heads, and a task added
    later starts as it would have started at first.
    """
    import torch

    return torch.Generator().manual_seed(derived(seed, *names))
