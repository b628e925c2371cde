"""What examples lost, by task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass
class TaskLosses:
    """What some steps' examples lost, by task: of this process's part until it is summed.

    Attributes:
        loss: the sum of the examples' losses, [T].
        examples: how many there are, those of weight 0 left out, [T].
        part: the task's part of the steps' losses before its factor, Σ weight·ℓ, [T].
    """

    loss: Floats
    examples: Floats
    part: Floats

    @classmethod
    def zero(cls, tasks: int) -> TaskLosses:
        """Of no example."""
        return cls(np.zeros(tasks), np.zeros(tasks), np.zeros(tasks))

    def add(self, other: TaskLosses) -> None:
        """With those of other examples."""
        self.loss += other.loss
        self.examples += other.examples
        self.part += other.part
