"""Samplers with tasks in turn: `round_robin` and `stretched`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.sampling.samplers.sampler import Sampler

if TYPE_CHECKING:
    from weft.sampling.plan.choice import Segment
    from weft.utils.counter_rng import Ints


class RoundRobin(Sampler):
    """Draw c is task c mod T: one batch per task in turn or, in mixed batches, one example per task."""

    name = "round_robin"
    summary = "tasks take turns; an epoch of a task ends with a short batch"

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        from weft.sampling.plan.choice import Cycle, Segment

        return [Segment(0, steps, Cycle(range(len(sizes)), tasks=len(sizes)))]


class Stretched(Sampler):
    """Every task has n_max examples per epoch, n_max being the largest size (multitask LoRA, section 4).

    A smaller task repeats its n examples, each time in a different order, until there are n_max: each example
    occurs ⌊n_max/n⌋ or ⌈n_max/n⌉ times. They are then divided into batches: an epoch of all T tasks is
    T·⌈n_max/B⌉ steps, one batch per task in turn. In mixed batches it is T·n_max draws; if T divides B and
    batches are not grouped by length, every step has B/T examples of each task.

    (`round_robin` ends a task's epoch with a short batch, so that a small task gets fewer examples.)
    """

    name = "stretched"
    summary = "tasks take turns; every task is repeated to the size of the largest, then divided into batches"

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        from weft.sampling.plan.choice import Cycle, Segment

        return [Segment(0, steps, Cycle(range(len(sizes)), tasks=len(sizes)))]

    def spans(self, sizes: Ints) -> Ints:
        """n_max for every task."""
        import numpy as np

        return np.full_like(sizes, sizes.max())
