"""`round_robin`: the tasks take turns."""

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

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        from weft.sampling.plan.choice import Cycle, Segment

        return [Segment(0, steps, Cycle(range(len(sizes)), tasks=len(sizes)))]
