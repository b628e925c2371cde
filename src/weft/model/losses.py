"""The weight of each example: loss = Σ weight·ℓ.

The weights are computed over the whole step. So splitting it into micro-batches or over processes, and
summing the losses, changes nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.errors import WeftError, did_you_mean

RULES = ("task_mean", "example_mean", "sum")


def example_weights(task: Tensor, rule: str = "task_mean") -> Tensor:
    """Return the weights of a step's examples, [E].

    Args:
        task: the task id of each example of the step, [E].
        rule: `task_mean`, the mean over the tasks present of each task's mean; `example_mean`; `sum`.
    """
    if rule == "sum":
        return torch.ones(task.shape, device=task.device)
    if rule == "example_mean":
        return torch.full(task.shape, 1 / task.numel(), device=task.device)
    if rule != "task_mean":
        raise WeftError(f"loss {rule!r} does not exist; {did_you_mean(rule, RULES)}")
    same = task[:, None] == task[None, :]  # [E, E]
    per_task = same.sum(1).float()  # how many examples each example's task has
    present = (1 / per_task).sum()  # the number of tasks present
    return 1 / (per_task * present)
