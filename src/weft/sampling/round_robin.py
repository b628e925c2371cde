"""`round_robin`: the tasks take turns."""

from __future__ import annotations

import numpy as np

from weft.sampling.choice import Cycle, Segment
from weft.sampling.draws import Ints
from weft.sampling.sampler import Sampler


class RoundRobin(Sampler):
    """Draw c goes to task c mod T: a batch of each task in turn or, in mixed batches, an example of each."""

    name = "round_robin"

    def segments(self, sizes: Ints, steps: int) -> list[Segment]:
        """One segment."""
        return [Segment(0, steps, Cycle(np.arange(len(sizes)), tasks=len(sizes)))]
