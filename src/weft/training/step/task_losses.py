"""Sums of example losses by task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass
class TaskLosses:
    """The losses of some steps' examples, by task; of this process's examples until they are summed.

    Attributes:
        loss: the sum of the examples' losses, [T].
        examples: the number of examples, without those of weight 0, [T].
        weighted: Σ weight·ℓ over the task's examples, before the task's factor, [T].
    """

    loss: Floats
    examples: Floats
    weighted: Floats

    @classmethod
    def zero(cls, tasks: int) -> TaskLosses:
        """The losses of no example."""
        return cls(np.zeros(tasks), np.zeros(tasks), np.zeros(tasks))

    def add(self, other: TaskLosses) -> None:
        """Add the losses of further examples, in place."""
        self.loss += other.loss
        self.examples += other.examples
        self.weighted += other.weighted
