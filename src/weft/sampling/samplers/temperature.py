"""`temperature`: sizes flattened by a temperature, as hyperformer and MORRIS draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field, PositiveInt

from weft.sampling.samplers.sampler import Sampler

if TYPE_CHECKING:
    from weft.sampling.plan.choice import Segment
    from weft.utils.counter_rng import Ints


class Temperature(Sampler):
    """p_i ∝ (n_i / Σ_j n_j)^(1/T), where n_i is at most `cap`: T = 1 is `proportional`, T → ∞ `uniform`.

    (Σ_j n_j is the same for all tasks, and divides out.) With `replacement` each example of a task is drawn
    by itself, each as likely as every other, whatever was drawn before: no epochs, and no short batch.
    """

    name = "temperature"

    temperature: float = Field(
        10.0, ge=1e-3, allow_inf_nan=False, description="T in p ∝ n^(1/T): 1 by size, large all tasks alike"
    )
    cap: PositiveInt | None = Field(None, description="the size that a larger task counts as; null: its own")
    replacement: bool = Field(
        False, description="draw examples with replacement, as hyperformer does, instead of once an epoch"
    )

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        from weft.sampling.plan.choice import Segment
        from weft.sampling.samplers.power_law import power_law

        counted = sizes if self.cap is None else sizes.clip(max=self.cap)
        return [Segment(0, steps, power_law(counted, 1 / self.temperature))]
