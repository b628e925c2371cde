"""`power`: a task is as likely as a power of its size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from weft.sampling.samplers.sampler import Sampler

if TYPE_CHECKING:
    from weft.sampling.plan.choice import Segment
    from weft.utils.counter_rng import Ints


class Power(Sampler):
    """p_i = n_i^α / Σ_j n_j^α: α = 0 is `uniform`, 1 `proportional`, 1/2 `square_root`."""

    name = "power"

    alpha: float = Field(
        0.5, ge=0, allow_inf_nan=False, description="α in p ∝ n^α: 0 all tasks alike, 1 by size"
    )

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        from weft.sampling.plan.choice import Segment
        from weft.sampling.samplers.power_law import power_law

        return [Segment(0, steps, power_law(sizes, self.alpha))]
