"""The plan of a run: built from the settings, updated when tasks stop, with notes for the user."""

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
    """Build the plan of a run.

    Args:
        training: the settings of `train`.
        names: the names of the tasks, [T].
        sizes: the number of training rows of each, [T].
        lengths: the token lengths of each, T arrays; None without a tokenizer: batches are then not
            length-bucketed.
        before: the number of steps of a phase before `training.steps`.
    """
    return Plan(
        sizes,
        training.sampler,
        training.seed,
        max(1, before + training.steps),  # a run without steps has a plan that is never followed
        training.batch_size,
        mixed=training.mixed,
        lengths=lengths,
        group_by_length=training.group_by_length and lengths is not None,
        loss=training.loss,
        names=names,
    )


class RunPlan:
    """A plan that tasks are removed from as they stop.

    Args:
        whole: the plan without stops.

    Attributes:
        plan: the present plan.
        sampled: the tasks that are sampled at all: a policy may give some the probability 0; they never stop.
    """

    def __init__(self, whole: Plan) -> None:
        self.plan = self._whole = whole
        self.sampled = {int(t) for share in whole.shares() for t in np.flatnonzero(share.share)}

    def over(self, stops: Stops) -> bool:
        """Whether no task is left to sample."""
        return self.sampled <= {task for _, task in stops}

    def follow(self, stops: Stops) -> None:
        """Apply stops, (step, task) each; steps before them do not change."""
        if not self.over(stops) and list(self.plan.stops) != list(stops):
            self.plan = self._whole.with_stops(stops)


def notes(loop: Loop) -> list[str]:
    """Notes for the user about settings with unexpected effects, shown before the run begins."""
    lines = []
    driver = loop.driver
    if driver.note is not None:
        lines.append(f"train.engine is {driver.name}: {driver.note}")
    if driver.shapes is not None:
        lengths, waste = ", ".join(map(str, driver.shapes.lengths)), driver.shapes.waste
        lines.append(
            f"engine {driver.name}: rows are padded to {lengths} tokens; {100 * waste.total:.1f}% of all "
            f"positions are padding ({100 * waste.rounding:.1f}% by rounding up)"
        )
    if loop.training.trunk_cache:
        lines += [note for note in [driver.trunk_note] if note is not None]
    if loop.chooser is not None:
        pairs = loop.chooser.proxy_names.items()
        lines += [f"{task} uses the uncertainty scores of {other}" for task, other in pairs]
    merged = driver.gradients.merged
    if merged is not None and not merged.shares:
        lines.append(
            f"method {loop.model.method.name!r} trains no shared weights: train.conflict changes no "
            "gradient, and costs one pass per task"
        )
    return [*lines, *unused_rates(loop)]


def unused_rates(loop: Loop) -> list[str]:
    """Notes about learning rates that no parameter uses."""
    from weft.core.stacked import task_owner
    from weft.model.ownership import owned
    from weft.training.optim.owners import rate_of
    from weft.training.settings import LearningRates

    rates = loop.training.lr_of or LearningRates()
    trained = [item for item in owned(loop.model) if item.trains]
    roles = {rate_of(item) for item in trained}
    owners = {item.owner for item in trained if item.role != "gate"}
    of_roles = {role: rate for role, rate in rates if role != "tasks"}
    return [
        *(
            f"train.lr_of.{role}: no parameter of that role trains here"
            for role, rate in of_roles.items()
            if rate is not None and role not in roles
        ),
        *(
            f"train.lr_of.tasks.{task}: no parameter that trains belongs to {task} alone"
            for task in rates.tasks or ()
            if task_owner(task) not in owners
        ),
    ]
