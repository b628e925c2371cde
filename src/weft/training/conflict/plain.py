"""`mean` and `sum`: unmodified gradients, to log the conflicts without changing the gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.training.conflict.conflict import Conflict, Merged

if TYPE_CHECKING:
    from torch import Tensor


class Mean(Conflict):
    """(1/P)·Σ g_t: the plain gradient of the step's loss, with the tasks' cosines in the log."""

    name = "mean"

    def merge(self, gramian: Tensor, tasks: Sequence[int], seed: int) -> Merged:
        """1/P for each task."""
        import torch

        mean = torch.full((len(tasks),), 1 / len(tasks), dtype=torch.float64)
        return Merged(mean, mean, mean)


class Sum(Conflict):
    """Σ g_t: P times the plain gradient, with P the number of tasks in the step."""

    name = "sum"

    def merge(self, gramian: Tensor, tasks: Sequence[int], seed: int) -> Merged:
        """1 for each task."""
        import torch

        ones = torch.ones(len(tasks), dtype=torch.float64)
        return Merged(ones, ones, ones)
