"""How far a result of faster code is from that of plain code."""

from __future__ import annotations

import math

from torch import Tensor


def difference(found: Tensor, expected: Tensor, floor: float = 0.0) -> float:
    """‖found − expected‖ / max(‖expected‖, floor·√n), n their number; inf if something found is not finite.

    Args:
        found: of any shape.
        expected: of the same shape, finite.
        floor: the root mean square below which what is expected counts as so large.
    """
    found, expected = found.detach().double(), expected.detach().double()
    if not bool(found.isfinite().all()):
        return math.inf
    size = max(float(expected.norm()), floor * math.sqrt(expected.numel()))
    return share(float((found - expected).norm()), size)


def share(off: float, size: float) -> float:
    """off / size; inf where it is not finite, or where something differs from nothing."""
    if not math.isfinite(off):
        return math.inf
    return off / size if size > 0 else (0.0 if off == 0 else math.inf)
