"""`uniform`: every task is as likely as every other."""

from __future__ import annotations

import numpy as np

from weft.sampling.choice import Chance, Segment
from weft.sampling.draws import Ints
from weft.sampling.sampler import Sampler


class Uniform(Sampler):
    """p_i = 1/T (the 1/T sampling that CA-MTL compares with)."""

    name = "uniform"

    def segments(self, sizes: Ints, steps: int) -> list[Segment]:
        """One segment."""
        return [Segment(0, steps, Chance(np.full(len(sizes), 1 / len(sizes))))]
