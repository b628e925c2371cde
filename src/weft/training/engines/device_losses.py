"""Losses by task, summed on the device by the passes of a CUDA graph."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from weft.training.settings import Training
from weft.training.step.gradients import diverged
from weft.training.step.task_losses import TaskLosses


class DeviceLosses:
    """Sums the losses of examples by task, without synchronizing with the device until they are read.

    Args:
        names: the names of the tasks of the plan, [T].
        device: where passes run.

    Attributes:
        sums: Σ ℓ, the number of examples, and Σ weight·ℓ of each task, [3, T] float64.
        diverged_at: the number of the first step with a loss that is not finite; ∞: none, [].
    """

    def __init__(self, names: Sequence[str], device: torch.device) -> None:
        self._names = names
        self.sums = torch.zeros(3, len(names), dtype=torch.float64, device=device)
        self.diverged_at = torch.full((), math.inf, device=device)

    @torch.no_grad()
    def add(self, losses: Tensor, tasks: Tensor, weight: Tensor, step: Tensor) -> None:
        """Add the losses of a micro-batch; all arguments are on the device.

        Args:
            losses: the loss of each example, [E].
            tasks: the plan's task of each, [E].
            weight: the weight of each, [E]; examples of weight 0 do not count.
            step: the number of the step, [].
        """
        counted = weight != 0
        odd = (counted & ~losses.isfinite()).any()
        self.diverged_at.copy_(torch.minimum(self.diverged_at, torch.where(odd, step, math.inf)))
        # later steps are not added: the reported task must be the one whose loss diverged first
        kept = torch.where(counted & (self.diverged_at >= step), losses, 0.0).double()
        self.sums.index_add_(1, tasks, torch.stack([kept, counted.double(), kept * weight]))

    def take(self, training: Training) -> TaskLosses:
        """Read the sums and set them to zero; this waits for the device.

        Args:
            training: the settings of `train`, for the message if the run diverged.
        """
        sums, step = self.sums.to("cpu", copy=True).numpy(), float(self.diverged_at)
        if math.isfinite(step):
            task = int(np.flatnonzero(~np.isfinite(sums[0]))[0])
            raise diverged(int(step), self._names[task], float(sums[0, task]), training)
        self.sums.zero_()
        return TaskLosses(sums[0], sums[1], sums[2])
