"""The covariance of runs that comes from their common rows, one matrix per evaluated set and target.

For the runs i, j and one set with U units, from the resampled values x_b of `bootstrap`:

    C[i, j] = U/(U − 1) · cov_b(x_b[i], x_b[j])

The factor makes the variance of a mean unbiased, which matters for sets with less than a hundred rows. Sets
are different rows, so C of a target is the sum over its sets. Each set is resampled separately, and no
covariance between sets is computed: it would be noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from weft.evaluation.rows import RunRows
from weft.experiments.statistics.bootstrap import Floats, resampled_metrics
from weft.experiments.statistics.targets import Target


@dataclass(frozen=True)
class SetCovariance:
    """The covariance of runs over the rows of one set.

    Attributes:
        matrix: C, [R, R]; 0 for runs without this set.
        units: the number of units of the set.
    """

    matrix: Floats
    units: int


Resampled = Mapping[str, Mapping[str, tuple[list[int], Floats]]]
"""Set → metric → (numbers of runs, resampled values [B, runs])."""


def resample(runs: Sequence[RunRows], resamples: int, seed: int, workers: int = 2) -> Resampled:
    """Compute the resampled metrics of all sets of all runs.

    Args:
        runs: the runs; equal sets have equal rows.
        resamples: the number of resampled sets.
        seed: the seed of the weights.
        workers: how many sets are resampled at the same time.
    """
    names = list(dict.fromkeys(name for run in runs for name in run.sets))
    # large sets first, so that no worker is left with one at the end
    names.sort(key=lambda name: -max(run.sets[name].rows for run in runs if name in run.sets))

    def of_set(name: str) -> dict[str, tuple[list[int], Floats]]:
        having = [number for number, run in enumerate(runs) if name in run.sets]
        values = resampled_metrics([runs[number].sets[name] for number in having], resamples, seed)
        return {
            metric: ([having[number] for number in numbers], table)
            for metric, (numbers, table) in values.items()
        }

    with ThreadPoolExecutor(max(1, workers)) as pool:
        return dict(zip(names, pool.map(of_set, names), strict=True))


def set_covariances(
    target: Target, runs: Sequence[RunRows], resampled: Resampled
) -> tuple[list[SetCovariance], list[str]]:
    """Return the covariance of a target over each of its sets, and the metrics without row statistics.

    Args:
        target: what is compared.
        runs: all R runs.
        resampled: the output of `resample` for these runs.
    """
    covariances, without = [], []
    for name in dict.fromkeys(term.set for term in target.terms):
        units = next((run.sets[name].units.count for run in runs if name in run.sets), 0)
        combined: Floats | None = None
        for term in target.terms:
            if term.set != name:
                continue
            values = resampled.get(name, {}).get(term.metric)
            if values is None or units < 2:
                without.append(f"{name} {term.metric}")
                continue
            numbers, table = values
            if combined is None:
                combined = np.zeros((len(table), len(runs)))
            combined[:, numbers] += term.coefficient * table
        if combined is not None and len(combined) > 1:
            combined -= combined.mean(0)
            matrix = combined.T @ combined / (len(combined) - 1) * units / (units - 1)
            covariances.append(SetCovariance(matrix, units))
    return covariances, without
