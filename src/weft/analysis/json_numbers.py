"""Numbers and matrices as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def numbers(matrix: NDArray[np.float64] | None) -> list[list[float | None]] | None:
    """The matrix as nested lists, six decimals; None for a missing matrix and for NaN."""
    if matrix is None:
        return None
    return [[number(x) for x in row] for row in matrix.tolist()]


def number(value: float) -> float | None:
    """Six decimals; None for NaN, which JSON cannot represent."""
    return round(value, 6) if value == value else None
