"""`proportional`: a task is as likely as it is large."""

from __future__ import annotations

from weft.sampling.choice import Chance, Segment
from weft.sampling.draws import Ints
from weft.sampling.sampler import Sampler


class Proportional(Sampler):
    """p_i = n_i / Σ_j n_j: in mixed batches, as if all tasks were one shuffled set."""

    name = "proportional"

    def segments(self, sizes: Ints, steps: int) -> list[Segment]:
        """One segment."""
        return [Segment(0, steps, Chance(sizes / sizes.sum()))]
