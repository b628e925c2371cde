"""Variance components: how uncertain a mean over seeds is, and a difference of two such means.

**The model.** Y[s, r] is what row r contributes to the score of the run with seed s (for metrics that are no
means, its linear part: the influence of the row). Seeds and rows are crossed: all runs see the same rows.

    Y[s, r] = μ + a[s] + b[r] + e[s, r]        variances σ_a², σ_b², σ_e²;  n seeds, N rows

a is what a seed does to all rows, b what makes a row hard for every seed, e the rest. The score of a run is
its mean over rows. The variance of the mean over n seeds, were both seeds and rows drawn anew, is

    V = σ_a²/n + σ_b²/N + σ_e²/(n·N)                                                                 (1)

**What can be measured.**

- s², the variance of the n scores, has the expectation σ_a² + σ_e²/N. The common rows shift all scores alike,
  so b is not in it. Hence s²/n estimates the first and the last term of (1).
- C, the covariance of the runs over resampled rows (`covariance`), has σ_b²/N + σ_e²/N on its diagonal and
  σ_b²/N elsewhere. The bootstrap variance of the *mean over seeds* is the mean of all entries of C. It has
  the expectation σ_b²/N + σ_e²/(n·N).

The sum of s²/n and the bootstrap variance of the mean would count σ_e²/(n·N) twice. With few seeds and a
model that is unsure about many rows this is a large part. So the row part is the mean of the entries of C
**off the diagonal**, and

    V̂ = s²/n  +  mean of C[s, s'] over s ≠ s'                                                         (2)
         seeds     rows

is unbiased for (1): what the seeds do is measured over seeds, what the rows do to all seeds alike over rows.
A row part below 0 (there is no row effect, and noise) counts as 0. With a single seed there is no seed part,
and the row part is C[s, s].

**A floor.** σ_a² is not below 0, so s² has at least the expectation σ_e²/N, and C gives σ_e²/(n·N) precisely:
it is the mean of all entries of C minus the mean off the diagonal. On small sets three scores may be equal by
chance, and an interval without width would be nonsense. The seed part is therefore at least

    σ_e²/(n·N) · χ²_{n−1, 5 %}/(n − 1)

the 5 % quantile of s²/n for runs that differ in their noise e alone. It changes one table in twenty at most.

**Differences.** If two variants have the same seeds, (2) is applied to the differences D[s] = X[s] − Y[s] of
runs with the same seed: what a seed or a row does to both variants cancels. Otherwise the seed part is
s_X²/n_X + s_Y²/n_Y, and the row part the means of C off the diagonal of both variants minus twice the mean
covariance between them. Rows are paired in both cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv

from weft.experiments.statistics.bootstrap import Floats
from weft.experiments.statistics.covariance import SetCovariance


@dataclass(frozen=True)
class Components:
    """The variance of an estimate, by its source.

    Attributes:
        estimate: the mean over seeds, or the difference of two means.
        seeds: the number of seeds; of two variants with different seeds the smaller number.
        seed_variance: the seed part of V̂; None with a single seed.
        seed_df: its degrees of freedom.
        row_variance: the row part of V̂; None if no metric of the target has row statistics.
        row_df: its degrees of freedom, from the numbers of units of the sets.
        row_noise: Σ over sets of (bootstrap variance of the mean over seeds)²/(units − 1): half the variance
            of the row part's estimate.
        paired: whether the seeds were paired; None for a single variant.
    """

    estimate: float
    seeds: int
    seed_variance: float | None
    seed_df: float
    row_variance: float | None
    row_df: float
    row_noise: float
    paired: bool | None = None

    @property
    def variance(self) -> float | None:
        """V̂; None if neither part is known."""
        known = [part for part in (self.seed_variance, self.row_variance) if part is not None]
        return sum(known) if known else None

    @property
    def df(self) -> float:
        """Satterthwaite's degrees of freedom of V̂: V̂² / (seed part²/(n − 1) + row noise)."""
        seed_noise = (self.seed_variance or 0.0) ** 2 / self.seed_df if self.seed_df else 0.0
        noise = seed_noise + self.row_noise
        parts = [df for df in (self.seed_df, self.row_df) if df > 0]
        least = min(parts, default=1.0)
        # a row part near 0 is less certain than Satterthwaite's formula assumes of parts
        return max(least, self.variance**2 / noise) if noise and self.variance else least


def mean_components(
    scores: Sequence[float], runs: Sequence[int], sets: Sequence[SetCovariance]
) -> Components:
    """Return the components of the mean over the seeds of one variant.

    Args:
        scores: the target's value of each run, [n].
        runs: the numbers of these runs in the covariances, [n].
        sets: the covariances of the target.
    """
    values = np.asarray(scores, np.float64)
    return components_of_columns(values, [(c.matrix[np.ix_(runs, runs)], c.units) for c in sets], None)


def paired_components(
    scores: Sequence[float],
    others: Sequence[float],
    runs: Sequence[int],
    other_runs: Sequence[int],
    sets: Sequence[SetCovariance],
) -> Components:
    """Return the components of the difference of two variants with the same seeds, in the same order.

    Args:
        scores: the values of the first variant, [n].
        others: the values of the second variant, [n].
        runs: the numbers of the runs of the first variant, [n].
        other_runs: those of the second variant, [n].
        sets: the covariances of the target.
    """
    first, second = list(runs), list(other_runs)
    matrices = []
    for c in sets:
        m = c.matrix
        crossed = m[np.ix_(first, second)]
        differences = m[np.ix_(first, first)] + m[np.ix_(second, second)] - crossed - crossed.T
        matrices.append((differences, c.units))
    return components_of_columns(np.subtract(scores, others), matrices, True)


def unpaired_components(
    scores: dict[int, float],
    others: dict[int, float],
    runs: dict[int, int],
    other_runs: dict[int, int],
    sets: Sequence[SetCovariance],
) -> Components:
    """Return the components of the difference of two variants with different seeds; arguments are by seed.

    Args:
        scores: the values of the first variant.
        others: the values of the second variant.
        runs: the numbers of the runs of the first variant.
        other_runs: those of the second variant.
        sets: the covariances of the target.
    """
    both = [
        mean_components(list(values.values()), [numbers[seed] for seed in values], sets)
        for values, numbers in ((scores, runs), (others, other_runs))
    ]
    seed_variance, seed_df = None, 0.0
    if all(part.seed_variance is not None for part in both):
        parts = [part.seed_variance or 0.0 for part in both]
        seed_variance = sum(parts)
        noise = sum(part**2 / c.seed_df for part, c in zip(parts, both, strict=True))
        seed_df = seed_variance**2 / noise if noise else min(c.seed_df for c in both)
    first, second = [runs[seed] for seed in scores], [other_runs[seed] for seed in others]
    # runs with a common seed share more than their rows; they are left out if other pairs remain
    apart = np.array([[seed != other for other in others] for seed in scores])
    apart = apart if apart.any() else np.ones_like(apart)
    row_variance, means = 0.0, []
    for c in sets:
        one, two = c.matrix[np.ix_(first, first)], c.matrix[np.ix_(second, second)]
        crossed = c.matrix[np.ix_(first, second)]
        row_variance += _off_diagonal(one) + _off_diagonal(two) - 2 * float(crossed[apart].mean())
        means.append((float(one.mean() + two.mean() - 2 * crossed.mean()), c.units))
    estimate = both[0].estimate - both[1].estimate
    return _components(
        estimate, min(c.seeds for c in both), seed_variance, seed_df, row_variance, means, False
    )


def components_of_columns(
    scores: Floats, matrices: list[tuple[Floats, int]], paired: bool | None
) -> Components:
    """Return the components of a mean over seeds.

    Args:
        scores: one number per seed, [n].
        matrices: for each set the covariance of these numbers over its rows, [n, n], and its number of units.
        paired: see `Components`.
    """
    count = len(scores)
    seed_variance = float(scores.var(ddof=1)) / count if count > 1 else None
    row_variance = sum(_off_diagonal(matrix) for matrix, _ in matrices)
    means = [(float(matrix.mean()), units) for matrix, units in matrices]
    return _components(
        float(scores.mean()), count, seed_variance, float(count - 1), row_variance, means, paired
    )


def _components(
    estimate: float,
    seeds: int,
    seed_variance: float | None,
    seed_df: float,
    row_variance: float,
    means: list[tuple[float, int]],
    paired: bool | None,
) -> Components:
    noise = sum(mean**2 / (units - 1) for mean, units in means)
    total = sum(mean for mean, _ in means)
    row_df = total**2 / noise if noise else float(sum(units - 1 for _, units in means))
    known = max(0.0, row_variance) if means else None
    if seed_variance is not None and means:
        row_wise_noise = max(0.0, total - row_variance)
        seed_variance = max(seed_variance, row_wise_noise * _low_chi_square(seed_df) / seed_df)
    return Components(estimate, seeds, seed_variance, seed_df, known, row_df, noise, paired)


def _low_chi_square(df: float) -> float:
    """The 5 % quantile of chi-square."""
    return float(2 * gammaincinv(df / 2, 0.05))


def _off_diagonal(matrix: Floats) -> float:
    """The mean of the entries off the diagonal; of a single entry, the entry."""
    count = len(matrix)
    if count == 1:
        return float(matrix[0, 0])
    return float((matrix.sum() - np.trace(matrix)) / (count * (count - 1)))
