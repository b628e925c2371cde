"""Similarities of updates, written out in numpy."""

from __future__ import annotations

import numpy as np


def by_numpy(updates):
    """Equation 5, written out."""
    count = len(updates)
    found = np.full((count, count), np.nan)
    for s in range(count):
        for t in range(count):
            norms = np.linalg.norm(updates[s]) * np.linalg.norm(updates[t])
            if norms > 0:
                found[s, t] = updates[s] @ updates[t] / norms
    return found


def assert_same(a, b, atol=1e-9):
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)  # NaN equals NaN
