"""Samplers by which tasks take turns: `round_robin` and `stretched`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.sampling.samplers.sampler import Sampler

if TYPE_CHECKING:
    from weft.sampling.plan.choice import Segment
    from weft.utils.counter_rng import Ints


class RoundRobin(Sampler):
    """Draw c goes to task c mod T: a batch of each task in turn or, in mixed batches, an example of each."""

    name = "round_robin"
    summary = "tasks take turns; an epoch of a task ends with a short batch"

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        from weft.sampling.plan.choice import Cycle, Segment

        return [Segment(0, steps, Cycle(range(len(sizes)), tasks=len(sizes)))]


class Stretched(Sampler):
    """Every task has n_max examples an epoch, n_max the size of the largest (multitask LoRA, section 4).

    A smaller task of n examples passes through them again and again, in another order each time, until there
    are n_max: each example comes ⌊n_max/n⌋ or ⌈n_max/n⌉ times. Then batches are cut: an epoch of all T tasks
    is T·⌈n_max/B⌉ steps, a batch of each task in turn. In mixed batches it is T·n_max draws; where T divides
    the batch size and batches are not grouped by length, every step has B/T examples of each task.

    (`round_robin` ends a task's epoch with a short batch, so that a small task is given fewer examples.)
    """

    name = "stretched"
    summary = "tasks take turns; every task is cycled to the length of the longest, then cut into batches"

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        from weft.sampling.plan.choice import Cycle, Segment

        return [Segment(0, steps, Cycle(range(len(sizes)), tasks=len(sizes)))]

    def spans(self, sizes: Ints) -> Ints:
        """n_max for every task."""
        import numpy as np

        return np.full_like(sizes, sizes.max())
