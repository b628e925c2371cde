"""`mean` and `sum`: the tasks' gradients as they are, which tells of their conflict and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.training.conflict.conflict import Conflict, Merged

if TYPE_CHECKING:
    from torch import Tensor


class Mean(Conflict):
    """(1/P)·Σ g_t: the plain gradient of the step's loss, with the cosines of its tasks in the log."""

    name = "mean"

    def merge(self, gramian: Tensor, tasks: Sequence[int], seed: int) -> Merged:
        """1/P each."""
        import torch

        mean = torch.full((len(tasks),), 1 / len(tasks), dtype=torch.float64)
        return Merged(mean, mean, mean)


class Sum(Conflict):
    """Σ g_t: P times the plain gradient, P the tasks of the step."""

    name = "sum"

    def merge(self, gramian: Tensor, tasks: Sequence[int], seed: int) -> Merged:
        """1 each."""
        import torch

        one = torch.ones(len(tasks), dtype=torch.float64)
        return Merged(one, one, one)
