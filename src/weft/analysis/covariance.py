"""The similarity of the covariances of tasks' inputs: CovSim (CA-MTL, equation 3.7).

X_i [m_i, d] is what enters the encoder's first block for m_i rows (or tokens) of task i. The uncentred
covariance is C_i = X_iᵀ·X_i [d, d]. Its best approximation of rank r_i is U_i·D_i·U_iᵀ, where r_i is the
smallest rank that holds a share (0.99) of the sum of the singular values. With F_i = U_i·D_i^½ [d, r_i]

    CovSim_ij = ‖F_iᵀ·F_j‖ / (‖F_i‖·‖F_j‖),    CovSim_i = 1/(T − 1)·Σ_{j≠i} CovSim_ij,

with Frobenius norms. It lies in [0, 1]. CovSim_ii = √(Σ D²) / Σ D, which is 1 only for a matrix of rank one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.analysis.json_numbers import number, numbers
from weft.errors import WeftError, did_you_mean

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Matrix = NDArray[np.float64]

SHARE = 0.99
"""The share of the sum of the singular values, as in the paper."""


POOLS: dict[str, str] = {
    "mean": "the mean of a row's tokens",
    "cls": "a row's first token",
    "tokens": "every token separately",
}
"""What a row of X is. The paper does not say how the L tokens of a sample become one row."""


@dataclass(frozen=True, eq=False)
class CovarianceSimilarity:
    """CovSim of T tasks.

    Attributes:
        tasks: the names of the matrix's rows and columns.
        matrix: CovSim_ij [T, T]; NaN if a task's inputs are all zero.
        averages: CovSim_i [T], over the other tasks for which it is defined; NaN if there are none.
        ranks: r_i, [T].
        counts: m_i, [T].
    """

    tasks: tuple[str, ...]
    matrix: Matrix
    averages: Matrix
    ranks: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def zero(self) -> list[str]:
        """The tasks whose inputs are all zero, for which CovSim is undefined."""
        return [task for task, rank in zip(self.tasks, self.ranks, strict=True) if rank == 0]

    def as_dict(self) -> dict[str, Any]:
        """All numbers as JSON values; undefined ones are null."""
        return {
            "tasks": list(self.tasks),
            "rows": list(self.counts),
            "ranks": list(self.ranks),
            "covsim": numbers(self.matrix),
            "average": [number(x) for x in self.averages.tolist()],
        }


class Covariance:
    """The uncentred covariance C = XᵀX [d, d] of rows that come in batches, in float64.

    Args:
        width: d.

    Attributes:
        matrix: C of the rows so far.
        rows: m, the number of rows so far.
    """

    def __init__(self, width: int) -> None:
        self.matrix: Matrix = np.zeros((width, width))
        self.rows = 0

    def add(self, rows: ArrayLike) -> None:
        """Add some rows of X, [m', d]."""
        batch = np.asarray(rows, np.float64)
        self.matrix += batch.T @ batch
        self.rows += len(batch)


def leading(covariance: ArrayLike, share: float = SHARE) -> Matrix:
    """F = U·D^½ [d, r] of the best rank-r approximation U·D·Uᵀ of a covariance, for the smallest r.

    Args:
        covariance: C [d, d], symmetric and positive semidefinite up to rounding.
        share: r is the smallest rank with D_1 + … + D_r ≥ share·tr C; in (0, 1].
    """
    matrix = np.asarray(covariance, np.float64)
    if not np.isfinite(matrix).all():
        raise WeftError("the inputs of the first block are not finite; the model did not train well")
    values, vectors = np.linalg.eigh(matrix)  # eigenvalues of such a matrix are its singular values
    values, vectors = values[::-1], vectors[:, ::-1]
    # with fewer rows than dimensions most are zero up to rounding
    values = np.where(values > len(values) * np.finfo(np.float64).eps * values[:1], values, 0.0)
    sums = np.cumsum(values)
    if not sums.size or sums[-1] <= 0:
        return np.zeros((len(matrix), 0))
    rank = int(np.searchsorted(sums, share * sums[-1])) + 1
    return vectors[:, :rank] * np.sqrt(values[:rank])


def covariance_similarity(
    tasks: Sequence[str], covariances: Sequence[Covariance], share: float = SHARE
) -> CovarianceSimilarity:
    """CovSim of every two tasks.

    Args:
        tasks: T names.
        covariances: the covariance of each task's inputs, all of width d.
        share: as in `leading`.
    """
    factors = []
    for task, covariance in zip(tasks, covariances, strict=True):
        try:
            factors.append(leading(covariance.matrix, share))
        except WeftError as wrong:
            raise WeftError(f"task {task!r}: {wrong}") from None
    count = len(factors)
    norms = np.array([np.linalg.norm(factor) for factor in factors])
    matrix = np.full((count, count), np.nan)
    for i in range(count):
        for j in range(i, count):
            if norms[i] > 0 and norms[j] > 0:
                # divided first: a product of large numbers could overflow
                product = np.linalg.norm((factors[i] / norms[i]).T @ (factors[j] / norms[j]))
                matrix[i, j] = matrix[j, i] = min(1.0, float(product))
    return CovarianceSimilarity(
        tuple(tasks),
        matrix,
        averages_over_others(matrix),
        tuple(factor.shape[1] for factor in factors),
        tuple(covariance.rows for covariance in covariances),
    )


def averages_over_others(matrix: Matrix) -> Matrix:
    """The mean of each row without the diagonal and undefined entries, [T, T] → [T]."""
    others = ~np.eye(len(matrix), dtype=bool) & ~np.isnan(matrix)
    counts = others.sum(1)
    sums = np.where(others, matrix, 0.0).sum(1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def check_settings(rows: int | None, pool: str, share: float) -> None:
    """Refuse invalid settings, before a model is loaded."""
    if rows is not None and rows < 1:
        raise WeftError(f"rows {rows}: expected 1 or more")
    if pool not in POOLS:
        raise WeftError(f"pool {pool!r} does not exist; {did_you_mean(pool, POOLS)}")
    if not 0 < share <= 1:
        raise WeftError(f"share {share:g}: expected a number above 0 and at most 1, such as {SHARE}")
