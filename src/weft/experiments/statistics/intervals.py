"""Intervals and p values of an estimate whose variance has a seed part and a row part.

**Interval.** estimate ± t_{ν}·√V̂ with Satterthwaite's degrees of freedom ν (`Components.df`).

**p value.** Satterthwaite's t is a good interval at 95 %, but its tails are too light if a seed part with two
degrees of freedom meets a small row part: whenever s² happens to be small, V̂ is small *and* ν is large. With
3 seeds and a tenth of the variance from rows, a nominal level of 5 % is 7.8 % in truth, and the level 0.83 %
that Holm's correction of six contrasts needs is 3.2 %. Verdicts are therefore made by the distribution of
Behrens and Fisher, in which each part keeps its own degrees of freedom:

    p = P(|√V_seeds·T_{n−1} + √V_rows·T_{rows}| ≥ |estimate|)        T: independent t variables

It is Student's t test if there is no row part, and the normal test if there is no seed part. In between it is
conservative: its level is never above the nominal one (docs/reference/statistics.md has the table).
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincinv, ndtr, stdtr, stdtrit

from weft.experiments.statistics.bootstrap import Floats
from weft.experiments.statistics.components import Components

_NODES = 200


def interval(parts: Components, level: float) -> tuple[float, float] | None:
    """Return the t interval of an estimate; None if its variance is unknown."""
    if parts.variance is None:
        return None
    half = float(stdtrit(parts.df, (1 + level) / 2)) * sqrt(parts.variance)
    return parts.estimate - half, parts.estimate + half


def p_value(distance: float, parts: Components) -> float | None:
    """Return the two-sided p value of a distance from the tested value; None if there is no variance.

    Args:
        distance: |estimate − tested value|.
        parts: the variances.
    """
    seed, row = parts.seed_variance or 0.0, parts.row_variance or 0.0
    if seed + row <= 0:
        return None
    return _tail(distance, seed, parts.seed_df, row, parts.row_df)


def critical(level: float, parts: Components) -> float:
    """Return the distance whose p value is `level`."""
    seed, row = parts.seed_variance or 0.0, parts.row_variance or 0.0
    return critical_distance(level, seed, parts.seed_df, row, parts.row_df)


def critical_distance(level: float, seed: float, seed_df: float, row: float, row_df: float) -> float:
    """Return the distance whose p value is `level`, from the two variances and their degrees of freedom."""
    parts = [
        sqrt(v) * float(stdtrit(df, 1 - level / 2)) for v, df in ((seed, seed_df), (row, row_df)) if v > 0
    ]
    if not parts:
        return 0.0
    low, high = 0.5 * max(parts), sum(parts)
    while _tail(high, seed, seed_df, row, row_df) > level:
        high *= 1.5
    found = brentq(lambda x: _tail(x, seed, seed_df, row, row_df) - level, low, high, xtol=1e-4 * high)
    return float(found)


def _tail(distance: float, seed: float, seed_df: float, row: float, row_df: float) -> float:
    """P(|√seed·T + √row·T'| ≥ distance).

    √seed·T is normal with the variance seed/q, where q·df has a chi-square distribution. The integral over q
    runs over its quantiles u = v³, with more nodes where q is small: there the tail comes from. Given q, the
    sum of a normal variable and √row·T' is treated as t with the degrees of freedom of T', which are many.
    """
    row_df = max(1.0, row_df)
    if seed <= 0:
        return float(2 * stdtr(row_df, -distance / sqrt(row)))
    q, weights = _quantiles(max(1.0, seed_df))
    spread = np.sqrt(seed / q + row)
    tails = 2 * (stdtr(row_df, -distance / spread) if row > 0 else ndtr(-distance / spread))
    return float(min(1.0, weights @ tails))


@lru_cache(256)
def _quantiles(df: float) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    v, w = (nodes + 1) / 2, weights / 2
    return 2 * gammaincinv(df / 2, v**3) / df, w * 3 * v**2
