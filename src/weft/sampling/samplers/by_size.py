"""Samplers by task size: p_i ∝ n_i^α with different exponents.

`uniform` (α = 0), `proportional` (1), `square_root` (1/2), `power` (any) and `temperature` (1/T).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field, PositiveInt

from weft.sampling.samplers.sampler import Sampler

if TYPE_CHECKING:
    from weft.sampling.plan.choice import Chance, Segment
    from weft.utils.counter_rng import Ints


class Uniform(Sampler):
    """p_i = 1/T (the 1/T sampling that CA-MTL compares with)."""

    name = "uniform"
    summary = "1/T: every task is equally likely"

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        import numpy as np

        from weft.sampling.plan.choice import Chance, Segment

        return [Segment(0, steps, Chance(np.full(len(sizes), 1 / len(sizes))))]


class Proportional(Sampler):
    """p_i = n_i / Σ_j n_j: in mixed batches, as if all tasks were one shuffled set."""

    name = "proportional"
    summary = "∝ n_i: in mixed batches, as if all tasks were one shuffled set"

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        from weft.sampling.plan.choice import Chance, Segment

        # not `power_law`, whose last bit may differ: earlier runs must keep their order when resumed
        return [Segment(0, steps, Chance(sizes / sizes.sum()))]


class SquareRoot(Sampler):
    """p_i = √n_i / Σ_j √n_j (one of the samplers that PALs compare)."""

    name = "square_root"
    summary = "∝ √n_i, one of the samplers that PALs compare"

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        from weft.sampling.plan.choice import Segment

        return [Segment(0, steps, power_law(sizes, 0.5))]


class Power(Sampler):
    """p_i = n_i^α / Σ_j n_j^α: α = 0 is `uniform`, 1 `proportional`, 1/2 `square_root`."""

    name = "power"
    summary = "∝ n_i^alpha: 0 is `uniform`, 1 `proportional`, 1/2 `square_root`"

    alpha: float = Field(
        0.5, ge=0, allow_inf_nan=False, description="α in p ∝ n^α: 0 all tasks equal, 1 by size"
    )

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        from weft.sampling.plan.choice import Segment

        return [Segment(0, steps, power_law(sizes, self.alpha))]


class Temperature(Sampler):
    """p_i ∝ (n_i / Σ_j n_j)^(1/T), where n_i is at most `cap`: T = 1 is `proportional`, T → ∞ `uniform`.

    (Σ_j n_j is the same for all tasks and cancels.) With `replacement` each example of a task is drawn
    independently and uniformly: there are no epochs and no short batches.
    """

    name = "temperature"
    summary = "∝ n_i^(1/temperature), as in hyperformer and MORRIS: 1 is `proportional`, ∞ `uniform`"

    temperature: float = Field(
        10.0,
        ge=1e-3,
        allow_inf_nan=False,
        description="T in p ∝ n^(1/T): 1 by size, large: all tasks equal",
    )
    cap: PositiveInt | None = Field(None, description="upper limit of a task's size n; null: no limit")
    replacement: bool = Field(
        False, description="draw examples with replacement, as hyperformer does, instead of once per epoch"
    )

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment."""
        from weft.sampling.plan.choice import Segment

        counted = sizes if self.cap is None else sizes.clip(max=self.cap)
        return [Segment(0, steps, power_law(counted, 1 / self.temperature))]


def power_law(sizes: Ints, alpha: float) -> Chance:
    """Return p_i = n_i^α / Σ_j n_j^α, [T].

    It is computed as exp(α·(ln n_i − ln n_max)), which is at most 1 for all n and α. The minimum is the
    smallest normal number, so that every task can be sampled.

    Args:
        sizes: n, the number of training examples of each task, [T].
        alpha: α; 0: all tasks equal, 1: proportional to their sizes.
    """
    import numpy as np

    from weft.sampling.plan.choice import Chance

    logs = np.log(sizes.astype(np.float64))
    powers = np.exp(alpha * (logs - logs.max()))
    powers = np.maximum(powers, np.finfo(np.float64).tiny)
    return Chance(powers / powers.sum())
