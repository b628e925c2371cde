"""`compare`: from the row statistics of runs to estimates, intervals and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt

from weft.errors import WeftError, did_you_mean
from weft.evaluation.rows import RunRows
from weft.experiments.statistics.bootstrap import RESAMPLES
from weft.experiments.statistics.combination import Combination, combination_components
from weft.experiments.statistics.components import (
    Components,
    mean_components,
    paired_components,
    unpaired_components,
)
from weft.experiments.statistics.covariance import SetCovariance, resample, set_covariances
from weft.experiments.statistics.intervals import interval
from weft.experiments.statistics.results import Comparison, ContrastResult, Difference, Estimate
from weft.experiments.statistics.targets import AVERAGE, Target, average_target, task_targets
from weft.experiments.statistics.verdicts import verdicts

LEVEL = 0.95

Runs = Mapping[str, Mapping[int, RunRows]]
"""Variant → seed → the row statistics of its run."""


@dataclass(frozen=True)
class Contrast:
    """Two variants that are compared, with a verdict.

    Attributes:
        variant: the variant.
        baseline: what it is compared with.
        margin: the claim is that variant − baseline > −margin, in shares of 1; None: whether they differ.
        name: the name of the claim, for tables.
    """

    variant: str
    baseline: str
    margin: float | None = None
    name: str | None = None


def against_baseline(variants: Sequence[str], baseline: str) -> list[Contrast]:
    """Return the contrasts of each variant against one baseline."""
    return [Contrast(variant, baseline) for variant in variants if variant != baseline]


def compare(
    runs: Runs,
    contrasts: Sequence[Contrast] = (),
    average: str = AVERAGE,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = LEVEL,
    workers: int = 2,
    combinations: Sequence[Combination] = (),
) -> Comparison:
    """Compare variants.

    Args:
        runs: variant → seed → row statistics. All runs were evaluated on the same rows.
        contrasts: the comparisons that get verdicts; all of them together are one family.
        average: what verdicts are about: `average`, the mean of the tasks' scores, or one of `AVERAGES`.
        resamples: the number of bootstrap resamples.
        seed: the seed of the bootstrap.
        level: the level of the intervals.
        workers: how many sets are resampled at the same time.
        combinations: sums of scores of several variants, which get intervals and no verdicts.
    """
    _check(runs, contrasts)
    listed = [run for seeds in runs.values() for run in seeds.values()]
    numbers, position = {}, 0
    for variant, seeds in runs.items():
        numbers[variant] = dict(zip(seeds, range(position, position + len(seeds)), strict=True))
        position += len(seeds)
    targets = [average_target(average, listed), *task_targets(listed)]
    resampled = resample(listed, resamples, seed, workers)
    tables = [_Table.of(target, runs, numbers, listed, resampled) for target in targets]
    of_average, of_tasks = tables[0], tables[1:]
    parts = [of_average.difference(contrast) for contrast in contrasts]
    decided = verdicts(
        [(part, contrast.margin) for part, contrast in zip(parts, contrasts, strict=True)], level
    )
    results = []
    for contrast, part, verdict in zip(contrasts, parts, decided, strict=True):
        tasks = {}
        for table in of_tasks:
            if (task_part := table.difference(contrast)) is not None:
                tasks[table.target.name] = _difference(task_part, level, table.without)
        results.append(
            ContrastResult(
                contrast.variant,
                contrast.baseline,
                contrast.name,
                contrast.margin,
                None if part is None else _difference(part, level, of_average.without),
                tasks,
                **{**asdict(verdict), "needs": verdict.needs},
            )
        )
    by_name: dict[str | None, Target] = {None: targets[0], **{target.name: target for target in targets[1:]}}
    sums = [combination_components(terms, by_name, runs, numbers, resampled) for terms in combinations]
    return Comparison(
        average,
        tuple(table.target.name for table in of_tasks),
        level,
        resamples,
        seed,
        {variant: _estimates(variant, tables, level) for variant in runs},
        tuple(results),
        tuple(_notes(runs, tables, results)),
        tuple(None if part is None else _difference(part, level, ()) for part in sums),
    )


@dataclass(frozen=True)
class _Table:
    """The scores of all runs for one target, and their covariances."""

    target: Target
    scores: dict[str, dict[int, float]]
    numbers: Mapping[str, Mapping[int, int]]
    sets: list[SetCovariance]
    without: tuple[str, ...]

    @classmethod
    def of(
        cls,
        target: Target,
        runs: Runs,
        numbers: Mapping[str, Mapping[int, int]],
        listed: Sequence[RunRows],
        resampled: Mapping[str, Mapping[str, tuple[list[int], object]]],
    ) -> _Table:
        scores: dict[str, dict[int, float]] = {}
        for variant, seeds in runs.items():
            values = {seed: target.value(run) for seed, run in seeds.items()}
            scores[variant] = {seed: value for seed, value in values.items() if value is not None}
        sets, without = set_covariances(target, listed, resampled)  # type: ignore[arg-type]
        return cls(target, scores, numbers, sets, tuple(without))

    def mean(self, variant: str) -> Components | None:
        """The components of a variant's mean; None if no seed has the target."""
        scores = self.scores[variant]
        runs = [self.numbers[variant][seed] for seed in scores]
        return mean_components(list(scores.values()), runs, self.sets) if scores else None

    def difference(self, contrast: Contrast) -> Components | None:
        """The components of a difference; None if one of the variants lacks the target."""
        first, second = self.scores[contrast.variant], self.scores[contrast.baseline]
        runs, others = self.numbers[contrast.variant], self.numbers[contrast.baseline]
        if not first or not second:
            return None
        if first.keys() == second.keys():
            seeds = list(first)
            return paired_components(
                [first[seed] for seed in seeds],
                [second[seed] for seed in seeds],
                [runs[seed] for seed in seeds],
                [others[seed] for seed in seeds],
                self.sets,
            )
        return unpaired_components(first, second, dict(runs), dict(others), self.sets)


def _difference(parts: Components, level: float, without: tuple[str, ...]) -> Difference:
    return Difference(
        parts.estimate,
        _root(parts.variance),
        _root(parts.seed_variance),
        _root(parts.row_variance),
        parts.df,
        interval(parts, level),
        parts.seeds,
        bool(parts.paired),
        without,
    )


def _estimates(variant: str, tables: Sequence[_Table], level: float) -> dict[str, Estimate]:
    estimates = {}
    for table in tables:
        parts = table.mean(variant)
        if parts is None:
            continue
        seed_part, variance = parts.seed_variance, parts.variance
        known = seed_part is not None and parts.row_variance is not None and variance
        estimates[table.target.name] = Estimate(
            parts.estimate,
            dict(table.scores[variant]),
            _root(variance),
            _root(seed_part),
            _root(parts.row_variance),
            (seed_part or 0.0) / variance if known and variance else None,
            parts.df,
            interval(parts, level),
            table.without,
        )
    return estimates


def _root(variance: float | None) -> float | None:
    return None if variance is None else sqrt(variance)


def _notes(runs: Runs, tables: Sequence[_Table], results: Sequence[ContrastResult]) -> list[str]:
    notes = []
    without = dict.fromkeys(metric for table in tables for metric in table.without)
    if without:
        notes.append(f"{', '.join(without)}: no row statistics; intervals have no row part for these metrics")
    for variant, seeds in runs.items():
        if lacking := [seed for seed in seeds if seed not in tables[0].scores[variant]]:
            shown = ", ".join(str(seed) for seed in lacking)
            notes.append(f"{variant}: seed {shown} lacks a value of the average {tables[0].target.name!r}")
        if len(seeds) == 1:
            notes.append(f"{variant}: one seed; its standard errors have no seed part")
    for result in results:
        if result.average is not None and not result.average.paired:
            notes.append(
                f"{result.variant} and {result.baseline} have different seeds: they are not paired by seed, "
                "and the interval is wider for it"
            )
    return notes


def _check(runs: Runs, contrasts: Sequence[Contrast]) -> None:
    if not any(runs.values()):
        raise WeftError("there are no runs to compare; expected one or more per variant")
    for contrast in contrasts:
        for variant in (contrast.variant, contrast.baseline):
            if variant not in runs:
                raise WeftError(f"variant {variant!r} has no runs; {did_you_mean(variant, runs)}")
        if contrast.variant == contrast.baseline:
            raise WeftError(f"variant {contrast.variant!r} is compared with itself; expected two variants")
        if contrast.margin is not None and not 0 <= contrast.margin < float("inf"):
            raise WeftError(f"margin must be 0 or more, as a share of 1; found {contrast.margin}")
    first: dict[str, tuple[str, int, RunRows]] = {}
    for variant, seeds in runs.items():
        for seed, run in seeds.items():
            for name, rows in run.sets.items():
                of_variant, of_seed, other = first.setdefault(name, (variant, seed, run))
                expected = other.sets[name]
                if (rows.gold, rows.rows, rows.units.count) != (
                    expected.gold,
                    expected.rows,
                    expected.units.count,
                ):
                    raise WeftError(
                        f"{variant}, seed {seed}: {name} was evaluated on other rows than in {of_variant}, "
                        f"seed {of_seed} ({rows.rows:,} and {expected.rows:,} rows): evaluate both on the "
                        "same rows"
                    )
