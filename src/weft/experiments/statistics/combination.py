"""Sums of scores of several variants, Σ factor · score, with the interval of the sum.

A claim may compare more than two variants: `average(a) − (average(b) + average(c))/2`. For the runs of each
seed the sum is one number. Its variance has the two parts of a difference: that of the sums of the seeds, and
that of the rows, on which all variants were evaluated,

    C[s, s'] = U/(U − 1) · cov_b(Σ_k factor_k · x_b[k, s], Σ_k factor_k · x_b[k, s'])

with the resampled values x_b of variant k and seed s, summed over the sets (`covariance`, `components`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.evaluation.rows import RunRows
from weft.experiments.statistics.bootstrap import Floats
from weft.experiments.statistics.components import Components, components_of_columns
from weft.experiments.statistics.covariance import Resampled
from weft.experiments.statistics.targets import Target


@dataclass(frozen=True)
class CombinationTerm:
    """One term of a sum.

    Attributes:
        factor: its factor.
        variant: the variant.
        target: the task; None: the average.
    """

    factor: float
    variant: str
    target: str | None = None


Combination = tuple[CombinationTerm, ...]


def combination_components(
    terms: Combination,
    targets: Mapping[str | None, Target],
    runs: Mapping[str, Mapping[int, RunRows]],
    numbers: Mapping[str, Mapping[int, int]],
    resampled: Resampled,
) -> Components | None:
    """Return the components of a sum over the seeds that all of its variants have.

    Args:
        terms: the sum.
        targets: the average under None, and the tasks by name.
        runs: variant → seed → row statistics.
        numbers: variant → seed → the number of the run in `resampled`.
        resampled: the resampled metrics of all runs.

    Returns:
        The components; None if no seed has every value.
    """
    if any(term.variant not in runs or term.target not in targets for term in terms):
        return None
    sums: dict[int, float] = {}
    for seed in runs[terms[0].variant]:
        values = [_value(term, targets, runs, seed) for term in terms]
        if None not in values:
            sums[seed] = sum(
                term.factor * value for term, value in zip(terms, values, strict=True) if value is not None
            )
    if not sums:
        return None
    matrices = []
    for name in dict.fromkeys(of.set for term in terms for of in targets[term.target].terms):
        columns, units = _columns(name, terms, targets, runs, numbers, list(sums), resampled)
        if columns is not None and units > 1:
            columns = columns - columns.mean(0)
            matrices.append((columns.T @ columns / (len(columns) - 1) * units / (units - 1), units))
    return components_of_columns(np.array(list(sums.values())), matrices, True)


def _value(
    term: CombinationTerm,
    targets: Mapping[str | None, Target],
    runs: Mapping[str, Mapping[int, RunRows]],
    seed: int,
) -> float | None:
    run = runs[term.variant].get(seed)
    return None if run is None else targets[term.target].value(run)


def _columns(
    name: str,
    terms: Combination,
    targets: Mapping[str | None, Target],
    runs: Mapping[str, Mapping[int, RunRows]],
    numbers: Mapping[str, Mapping[int, int]],
    seeds: Sequence[int],
    resampled: Resampled,
) -> tuple[Floats | None, int]:
    """The resampled values of a sum over one set, [B, seeds], and the set's number of units."""
    columns: Floats | None = None
    units = 0
    for term in terms:
        for of in targets[term.target].terms:
            if of.set != name or (values := resampled.get(name, {}).get(of.metric)) is None:
                continue
            places, table = values
            at = [places.index(numbers[term.variant][seed]) for seed in seeds]
            part = term.factor * of.coefficient * table[:, at]
            columns = part if columns is None else columns + part
            units = runs[term.variant][seeds[0]].sets[name].units.count
    return columns, units
