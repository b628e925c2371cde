"""Random numbers that depend on names, not on the order in which things are built."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def derived(seed: int, *names: str) -> int:
    """Derive a new seed from a seed and names."""
    digest = hashlib.sha256("\x00".join((str(seed), *names)).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def generator(seed: int, *names: str) -> torch.Generator:
    """Return a CPU generator for one parameter of one owner.

    An initial value drawn from `generator(seed, owner, site, parameter)` does not depend on which other
    tasks, methods or sites the model has. So methods can be compared from equal heads, and a task that is
    added later has the initial values it would have had from the beginning.
    """
    import torch

    return torch.Generator().manual_seed(derived(seed, *names))
