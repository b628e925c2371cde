"""The law that most samplers follow: a task is as likely as a power of its size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.sampling.plan.choice import Chance
from weft.utils.counter_rng import Ints


def power_law(sizes: Ints, alpha: float) -> Chance:
    """p_i = n_i^α / Σ_j n_j^α, [T].

    It is computed as exp(α·(ln n_i − ln n_max)): no power is ever larger than 1, whatever n and α are. A
    task never has less than the smallest normal number, so that every task can be drawn.

    Args:
        sizes: n, the number of training examples of each task, [T].
        alpha: α; 0: all tasks alike, 1: in proportion to their sizes.
    """
    logs = np.log(sizes.astype(np.float64))
    powers: NDArray[np.float64] = np.exp(alpha * (logs - logs.max()))
    powers = np.maximum(powers, np.finfo(np.float64).tiny)
    return Chance(powers / powers.sum())
