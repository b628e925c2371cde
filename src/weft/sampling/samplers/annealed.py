"""`annealed`: proportional to size at first, then increasingly uniform."""

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
    """p_i ∝ n_i^α with α = 1 − drop·e/(E − 1) in epoch e of E; α = 1 if E = 1 (PALs).

    An epoch here is a range of steps, not a pass over a task. With `epochs` E the run is divided into E equal
    ranges, e = ⌊E·step/steps⌋; a run of fewer than E steps omits some. With `epoch_steps` s it is
    e = ⌊step/s⌋ and E = ⌈steps/s⌉ (2400 in PALs).
    """

    name = "annealed"
    summary = (
        "∝ n_i^α, α = 1 − drop·e/(E − 1) in epoch e of E (PALs): from sizes towards equal shares; "
        "E = 1 means α = 1"
    )

    drop: float = Field(0.8, ge=0, le=1, description="how much α decreases from 1 until the last epoch")
    epochs: PositiveInt = Field(
        25, description="E, the number of equal ranges of steps in the run: e = ⌊E·step/steps⌋"
    )
    epoch_steps: PositiveInt | None = Field(
        None,
        description="s, the number of steps per epoch, instead of `epochs`: E = ⌈steps/s⌉, e = ⌊step/s⌋; "
        "2400 in PALs",
    )

    def segments(self, sizes: Ints, steps: int, names: Sequence[str]) -> list[Segment]:
        """One segment per epoch that has steps."""
        from weft.sampling.plan.choice import Segment
        from weft.sampling.samplers.by_size import power_law

        if self.epoch_steps is None:
            epochs = self.epochs
            # the first step with ⌊E·step/steps⌋ = e; if there are more epochs than steps, some have none
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
