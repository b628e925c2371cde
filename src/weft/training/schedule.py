"""The learning rate of a step."""

from __future__ import annotations


def lr_factor(step: int, steps: int, warmup: float, schedule: str) -> float:
    """The share of the peak learning rate that step `step` (from 0) has.

    In the first w = round(warmup·steps) steps it rises, (step + 1)/w; then it falls in a line,
    (steps − step)/(steps − w), and the step after the last would have zero; or it stays at 1.

    Args:
        step: the step, from 0.
        steps: the steps of the run.
        warmup: the share of the steps in which it rises.
        schedule: `linear` or `constant`.
    """
    rising = round(warmup * steps)
    if step < rising:
        return (step + 1) / rising
    return 1.0 if schedule == "constant" else (steps - step) / max(1, steps - rising)
