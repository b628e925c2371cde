"""The weights of the examples of a step, as defined in `weft.model.losses`, in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError, did_you_mean
from weft.utils.counter_rng import Ints

RULES = ("task_mean", "example_mean", "sum")


def check_rule(rule: str) -> None:
    """Refuse a rule that does not exist."""
    if rule not in RULES:
        raise WeftError(f"loss {rule!r} does not exist; {did_you_mean(rule, RULES)}")


def example_weights(task: Ints, rule: str) -> NDArray[np.float32]:
    """Return the weights of a step's examples, [E].

    With E_i examples of task i, P tasks present and E examples in all:
    `task_mean` 1/(P·E_i), `example_mean` 1/E, `sum` 1.

    Args:
        task: the task id of each example of the step, [E].
        rule: one of `RULES`.
    """
    check_rule(rule)
    if rule == "sum":
        return np.ones(len(task), np.float32)
    if rule == "example_mean":
        return np.full(len(task), 1 / len(task), np.float32)
    per_task = np.bincount(task)
    return (1 / (np.count_nonzero(per_task) * per_task[task])).astype(np.float32)
