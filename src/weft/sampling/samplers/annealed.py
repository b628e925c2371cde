"""`annealed`: by size at first, and ever less so."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import Field, PositiveInt

from weft.sampling.samplers.sampler import Sampler

if TYPE_CHECKING:
    from weft.sampling.plan.choice import Segment
    from weft.utils.counter_rng import Ints


class Annealed(Sampler):
    """p_i ∝ n_i^α with α = 1 − drop·e/(E − 1) in epoch e of E; α = 1 where E = 1 (PALs).

    An epoch here is a stretch of steps, not a pass through a task. With `epochs` E the run is cut into E
    equal ones, e = ⌊E·step/steps⌋; a run of fewer than E steps leaves some out. With `epoch_steps` s it is
    e = ⌊step/s⌋ and E = ⌈steps/s⌉ (2400 in PALs).
    """

    name = "annealed"
    summary = (
        "∝ n_i^α, α = 1 − drop·e/(E − 1) in epoch e of E (PALs): from sizes towards equal shares; "
        "E = 1 means α = 1"
    )

    drop: float = Field(0.8, ge=0, le=1, description="how much α falls, from 1, until the last epoch")
    epochs: PositiveInt = Field(
        25, description="E, how many stretches of steps the run is cut into: e = ⌊E·step/steps⌋"
    )
    epoch_steps: PositiveInt | None = Field(
        None,
        description="s, the steps of an epoch, instead of `epochs`: E = ⌈steps/s⌉, e = ⌊step/s⌋; "
        "2400 in PALs",
    )

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment an epoch that has steps."""
        from weft.sampling.plan.choice import Segment
        from weft.sampling.samplers.by_size import power_law

        if self.epoch_steps is None:
            epochs = self.epochs
            # the least step with ⌊E·step/steps⌋ = e; of more epochs than steps, those that a step is in
            numbers = range(epochs) if epochs <= steps else [epochs * step // steps for step in range(steps)]
            firsts = [-(-e * steps // epochs) for e in numbers]
        else:
            firsts = list(range(0, steps, self.epoch_steps))
            epochs = len(firsts)
            numbers = range(epochs)
        return [
            Segment(first, stop, power_law(sizes, 1 - self.drop * e / max(epochs - 1, 1)))
            for e, (first, stop) in zip(numbers, pairwise([*firsts, steps]), strict=True)
        ]
