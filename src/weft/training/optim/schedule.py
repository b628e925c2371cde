"""The learning-rate schedules."""

from __future__ import annotations

import math


def lr_factor(step: int, steps: int, warmup: float, schedule: str) -> float:
    """The factor on the peak learning rate in step `step`, from 0.

    In the first w = round(warmup·steps) steps the factor rises, (step + 1)/w. Then, with
    progress = (step − w)/(steps − w), it falls linearly, 1 − progress = (steps − step)/(steps − w), or as
    half a cosine, ½(1 + cos(π·progress)), so that the step after the last would have zero; or it stays at 1.

    Args:
        step: the step, from 0.
        steps: the steps of the run.
        warmup: the fraction of the steps in which the factor rises.
        schedule: `linear`, `cosine` or `constant`.
    """
    rising = round(warmup * steps)
    if step < rising:
        return (step + 1) / rising
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - rising) / max(1, steps - rising))))
    return 1.0 if schedule == "constant" else (steps - step) / max(1, steps - rising)
