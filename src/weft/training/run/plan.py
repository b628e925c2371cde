"""The plan of a run: what its settings mean, what stops leave of it, and what a user should know of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from weft.sampling.plan.plan import Plan
from weft.training.settings import Training

if TYPE_CHECKING:
    from weft.training.run.loop import Loop

Stops = Sequence[tuple[int, int]]


def plan_of(
    training: Training,
    names: Sequence[str],
    sizes: Sequence[int],
    lengths: Sequence[ArrayLike] | None,
    before: int = 0,
) -> Plan:
    """The plan of a run.

    Args:
        training: how to train.
        names: the tasks, [T].
        sizes: their training rows, [T].
        lengths: the token lengths of each, T arrays; None where there is no tokenizer, and then no grouping.
        before: the steps of a phase that comes before `training.steps`.
    """
    return Plan(
        sizes,
        training.sampler,
        training.seed,
        before + training.steps,
        training.batch_size,
        mixed=training.mixed,
        lengths=lengths,
        group_by_length=training.group_by_length and lengths is not None,
        loss=training.loss,
        names=names,
    )


class RunPlan:
    """A plan from which tasks are taken out as they stop.

    Args:
        whole: the plan without stops.

    Attributes:
        plan: what is followed now.
        sampled: the tasks that it samples at all: a policy may give some the probability 0; they never stop.
    """

    def __init__(self, whole: Plan) -> None:
        self.plan = self._whole = whole
        self.sampled = {int(t) for share in whole.shares() for t in np.flatnonzero(share.share)}

    def over(self, stops: Stops) -> bool:
        """Whether no task is left to sample."""
        return self.sampled <= {task for _, task in stops}

    def follow(self, stops: Stops) -> None:
        """Take these stops, (step, task) each; steps before them stay as they were."""
        if not self.over(stops) and list(self.plan.stops) != list(stops):
            self.plan = self._whole.with_stops(stops)


def notes(loop: Loop) -> list[str]:
    """Settings that mean something else than one might think, in sentences, before the run begins."""
    from weft.model.ownership import owned
    from weft.training.optim.owners import rate_of

    found = []
    driver = loop.driver
    if driver.note is not None:
        found.append(f"train.engine is {driver.name}: {driver.note}")
    if driver.shapes is not None:
        lengths, waste = ", ".join(map(str, driver.shapes.lengths)), driver.shapes.waste
        found.append(
            f"engine {driver.name}: rows are padded to {lengths} tokens; {100 * waste.total:.1f}% of the "
            f"places hold none ({100 * waste.rounding:.1f}% by rounding up)"
        )
    if loop.training.trunk_cache:
        found += [note for note in [driver.trunk_note] if note is not None]
    if loop.chooser is not None:
        pairs = loop.chooser.proxy_names.items()
        found += [f"{task} takes the uncertainty scores of {other}" for task, other in pairs]
    merged = driver.gradients.merged
    if merged is not None and not merged.shares:
        found.append(
            f"method {loop.model.method.name!r} trains nothing that tasks share: train.conflict changes no "
            "gradient, and costs one pass per task"
        )
    roles = {rate_of(item) for item in owned(loop.model) if item.trains}
    for role, rate in loop.training.lr_of or ():
        if rate is not None and role not in roles:
            found.append(f"train.lr_of.{role}: nothing of that role trains here")
    return found
