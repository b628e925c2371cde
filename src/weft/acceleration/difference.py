"""Relative differences between the results of accelerated and plain code."""

from __future__ import annotations

import math

from torch import Tensor


def difference(actual: Tensor, expected: Tensor, floor: float = 0.0) -> float:
    """Return ‖actual − expected‖ / max(‖expected‖, floor·√n), n = numel; inf if `actual` is not finite.

    Args:
        actual: of any shape.
        expected: of the same shape, finite.
        floor: a lower bound for the root mean square of `expected`.
    """
    actual, expected = actual.detach().double(), expected.detach().double()
    if not bool(actual.isfinite().all()):
        return math.inf
    size = max(float(expected.norm()), floor * math.sqrt(expected.numel()))
    return share(float((actual - expected).norm()), size)


def share(off: float, size: float) -> float:
    """Return off / size; inf if `off` is not finite, or if `size` is 0 and `off` is not."""
    if not math.isfinite(off):
        return math.inf
    return off / size if size > 0 else (0.0 if off == 0 else math.inf)
