"""The bootstrap over rows: the metrics of all runs on resampled sets.

A resampled set has as many units as the set, drawn with replacement: multinomial weights w_b[u], b = 1 … B.
The weights depend on the seed and the number of units, and on nothing else. All variants and seeds see the
same weights, so that the resampled metrics of two runs vary together as far as they make the same mistakes.

Weights are made in blocks: memory does not grow with the number of resamples, except for the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from weft.evaluation.rows import SetRows
from weft.metrics import METRICS

Floats = NDArray[np.float64]

RESAMPLES = 10_000
"""The relative error of a standard error from so many resamples is 0.7 %."""
_BLOCK_BYTES = 64 * 2**20
_MOST_IN_BLOCK = 512
_BYTES_PER_WEIGHT = 8 + 8 + 4
"""Of a draw, of its count and of its weight."""


def resampled_weights(
    units: int, resamples: int, seed: int, block: int | None = None
) -> Iterator[NDArray[np.float32]]:
    """Yield blocks of weights, [b, units], `resamples` rows in all. Each row sums to `units`.

    Args:
        units: the number of units that are drawn.
        resamples: how many resampled sets.
        seed: the seed; with the number of units it decides all draws.
        block: the rows of a block; by default as many as take about 64 MB. It changes no weight.
    """
    draw = np.random.Generator(np.random.PCG64(np.random.SeedSequence([abs(seed), units])))
    size = block or max(1, min(_MOST_IN_BLOCK, _BLOCK_BYTES // (_BYTES_PER_WEIGHT * max(1, units))))
    for first in range(0, resamples, size):
        count = min(size, resamples - first)
        drawn = draw.integers(0, units, (count, units))
        drawn += np.arange(count)[:, None] * units
        weights = np.bincount(drawn.reshape(-1), minlength=count * units)
        yield weights.reshape(count, units).astype(np.float32)


def resampled_metrics(
    runs: Sequence[SetRows], resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, tuple[list[int], Floats]]:
    """Compute the metrics of runs on resampled sets.

    Args:
        runs: the row statistics of one set; the runs have the same rows in the same order.
        resamples: the number of resampled sets, B.
        seed: the seed of the weights.

    Returns:
        For each metric with row statistics: the numbers of the runs that have it, and their values, [B, R].
    """
    units = runs[0].units
    names = dict.fromkeys(name for run in runs for name in run.arrays)
    having = {name: [number for number, run in enumerate(runs) if name in run.arrays] for name in names}
    evaluators = {}
    for name, numbers in having.items():
        rows = METRICS[name].rows
        if rows is not None:
            evaluators[name] = rows.evaluator([runs[number].arrays[name] for number in numbers], units)
    values = {name: np.empty((resamples, len(having[name]))) for name in evaluators}
    first = 0
    for weights in resampled_weights(units.count, resamples, seed) if evaluators and units.count else ():
        for name, evaluator in evaluators.items():
            values[name][first : first + len(weights)] = evaluator(weights)
        first += len(weights)
    return {name: (having[name], table) for name, table in values.items()}
