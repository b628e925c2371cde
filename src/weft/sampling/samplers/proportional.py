"""`proportional`: a task is as likely as it is large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.sampling.samplers.sampler import Sampler

if TYPE_CHECKING:
    from weft.sampling.plan.choice import Segment
    from weft.utils.counter_rng import Ints


class Proportional(Sampler):
    """p_i = n_i / Σ_j n_j: in mixed batches, as if all tasks were one shuffled set."""

    name = "proportional"

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        from weft.sampling.plan.choice import Chance, Segment

        # not by `power_law`, whose last bit may differ: a run of an earlier day must find the same order
        return [Segment(0, steps, Chance(sizes / sizes.sum()))]
