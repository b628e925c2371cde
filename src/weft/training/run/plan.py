"""The plan that a run's settings mean."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from weft.sampling.plan.plan import Plan
from weft.training.settings import Training


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
