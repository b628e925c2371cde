"""`uniform`: every task is as likely as every other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.sampling.samplers.sampler import Sampler

if TYPE_CHECKING:
    from weft.sampling.plan.choice import Segment
    from weft.utils.counter_rng import Ints


class Uniform(Sampler):
    """p_i = 1/T (the 1/T sampling that CA-MTL compares with)."""

    name = "uniform"

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        import numpy as np

        from weft.sampling.plan.choice import Chance, Segment

        return [Segment(0, steps, Chance(np.full(len(sizes), 1 / len(sizes))))]
