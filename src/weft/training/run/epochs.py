"""The number of steps of a run whose length is set in epochs (`train.epochs`).

An epoch of several tasks has no single meaning. `train.epoch` selects one, in steps of b = `batch_size`
examples, for T tasks of n_t training rows:

- `rows`: ⌈Σ n_t / b⌉, as many examples as there are rows.
- `largest`: ⌈max n_t / b⌉, as the CA-MTL thesis counts: 12,272 for GLUE and b = 32.
- `largest_each`: T·⌈max n_t / b⌉, as CA-MTL's code counts: 110,448 for nine tasks.
- `sampled`: until the sampler has drawn as many examples of the largest task as it has rows; this is the
  epoch that `weft show plan` prints. For `stretched` it is the pass of multitask LoRA.
- `pals`: 300·T, as the code of PALs counts: 2,400 for eight tasks, whatever their sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.errors import WeftError, train_key
from weft.training.run.plan import plan_of
from weft.training.settings import MOST_STEPS, Training

PALS_STEPS = 300
"""Steps per task in an epoch of PALs."""

LONG = 10_000
"""Steps of the plan that shows whether a sampler's shares change."""


def epoch_steps(training: Training, names: Sequence[str], sizes: Sequence[int]) -> float:
    """The number of steps of one epoch, as `train.epoch` defines it.

    Args:
        training: the settings of `train`.
        names: the names of the tasks that train, [T].
        sizes: the number of training rows of each, [T].
    """
    batch = training.batch_size
    largest = -(-max(sizes) // batch)
    if training.epoch == "sampled":
        return _sampled(training, names, sizes)
    return {
        "rows": -(-sum(sizes) // batch),
        "largest": largest,
        "largest_each": len(sizes) * largest,
        "pals": PALS_STEPS * len(sizes),
    }[training.epoch]


def with_steps(training: Training, names: Sequence[str], sizes: Sequence[int]) -> Training:
    """Return the settings with `steps` instead of `epochs`; unchanged if they have no epochs.

    Args:
        training: see `epoch_steps`.
        names: see `epoch_steps`.
        sizes: see `epoch_steps`.
    """
    if training.epochs is None:
        return training
    length = training.epochs * epoch_steps(training, names, sizes)
    if length > MOST_STEPS:
        raise WeftError(
            f"{train_key('epochs')}: {training.epochs:g} epochs are {length:g} steps; expected at most "
            f"{MOST_STEPS:,} steps"
        )
    # a product of an average and a fraction may be a rounding error above a whole number
    steps = math.ceil(round(length, 6))
    return training.model_copy(update={"steps": steps, "epochs": None, "epoch": "rows"})


def epoch_note(training: Training, steps: int) -> str:
    """Say how many steps the epochs are, such as `2 epochs (largest): 24544 steps`."""
    return f"{training.epochs:g} epoch{'s' * (training.epochs != 1)} ({training.epoch}): {steps} steps"


def _sampled(training: Training, names: Sequence[str], sizes: Sequence[int]) -> float:
    plan = plan_of(training.model_copy(update={"steps": LONG}), names, sizes, None)
    if len({tuple(window.share) for window in plan.shares()}) > 1:
        raise WeftError(
            f"{train_key('epoch')}: sampled: sampler {plan.sampler.name!r} changes its shares during a run: "
            "this epoch has no fixed length; expected rows, largest, largest_each or pals"
        )
    return plan.epoch().steps
