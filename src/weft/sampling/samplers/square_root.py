"""`square_root`: a task is as likely as the square root of its size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.sampling.samplers.sampler import Sampler

if TYPE_CHECKING:
    from weft.sampling.plan.choice import Segment
    from weft.utils.counter_rng import Ints


class SquareRoot(Sampler):
    """p_i = √n_i / Σ_j √n_j (one of those that PALs compare)."""

    name = "square_root"

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        from weft.sampling.plan.choice import Segment
        from weft.sampling.samplers.power_law import power_law

        return [Segment(0, steps, power_law(sizes, 0.5))]
