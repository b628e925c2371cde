"""What a comparison finds, as plain numbers. Scores and differences are shares of 1, as in metrics.json."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

BETTER, WORSE, HELD, NOT_HELD, UNDECIDED = "better", "worse", "held", "not held", "undecided"
"""The verdicts. The first two are those of a contrast without a margin, the next two those with one."""


@dataclass(frozen=True)
class Estimate:
    """The mean over seeds of one variant, for one target.

    Attributes:
        mean: the mean of the seeds' scores.
        scores: the score of each seed.
        se: the standard error; None if there is one seed and no row statistics.
        se_seeds: what the seeds contribute to it: se² = se_seeds² + se_rows². None with one seed.
        se_rows: what the rows contribute; None if no metric has row statistics.
        seed_share: the share of se² that comes from seeds, from 0 to 1; None if it is unknown.
        df: Satterthwaite's degrees of freedom.
        interval: the t interval of the mean.
        without_rows: the metrics without row statistics, `SET METRIC`: the interval has no row part for them.
    """

    mean: float
    scores: dict[int, float]
    se: float | None
    se_seeds: float | None
    se_rows: float | None
    seed_share: float | None
    df: float
    interval: tuple[float, float] | None
    without_rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """The difference variant − baseline, for one target.

    Attributes:
        estimate: the difference of the means over seeds.
        se: its standard error; None if it is unknown.
        se_seeds: what the seeds contribute: se² = se_seeds² + se_rows².
        se_rows: what the rows contribute.
        df: Satterthwaite's degrees of freedom.
        interval: the t interval of the difference.
        seeds: the number of seeds; of two variants with different seeds, the smaller number.
        paired: whether the runs were paired by seed. They are if both variants have the same seeds.
        without_rows: the metrics without row statistics.
    """

    estimate: float
    se: float | None
    se_seeds: float | None
    se_rows: float | None
    df: float
    interval: tuple[float, float] | None
    seeds: int
    paired: bool
    without_rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Needs:
    """What an undecided contrast would need, if the difference and the variances stay as they are.

    Attributes:
        seeds: about how many seeds in all; None if more rows are needed, or more than 1,000 seeds.
        rows: whether the row part alone prevents a verdict: no number of seeds would do.
    """

    seeds: int | None
    rows: bool

    @property
    def text(self) -> str:
        """For a table: `about 9 seeds`, `more rows` or `more than 1,000 seeds`."""
        if self.rows:
            return "more rows"
        return "more than 1,000 seeds" if self.seeds is None else f"about {self.seeds} seeds"


@dataclass(frozen=True)
class ContrastResult:
    """A contrast that the grid names.

    Attributes:
        variant: the variant.
        baseline: what it is compared with.
        name: the name of the claim, if it has one.
        margin: the claim is that variant − baseline > −margin; None: whether they differ.
        average: the difference of the average; None if a variant lacks a task of it.
        tasks: the difference of each task that both have. These have intervals and no verdicts.
        p: the two-sided p value for the average; None where there is no verdict.
        p_holm: the same with Holm's correction over all contrasts with a p value.
        verdict: `better`, `worse` or `undecided`; with a margin `held`, `not held` or `undecided`; None:
            `reason` says why there is none.
        reason: why there is no verdict, such as "needs at least 3 seeds; has 2".
        smallest: the smallest true difference from the tested value (0 or −margin) that a table like this one
            would show with a probability of 80 %, at the level 5 %/contrasts; None without a verdict.
        needs: what an undecided contrast would need.
    """

    variant: str
    baseline: str
    name: str | None
    margin: float | None
    average: Difference | None
    tasks: dict[str, Difference]
    p: float | None = None
    p_holm: float | None = None
    verdict: str | None = None
    reason: str | None = None
    smallest: float | None = None
    needs: Needs | None = None


@dataclass(frozen=True)
class Comparison:
    """All tables of a comparison.

    Attributes:
        average: the name of the average.
        tasks: the tasks, in order.
        level: the level of the intervals, such as 0.95.
        resamples: the number of bootstrap resamples.
        seed: the seed of the bootstrap.
        variants: the estimates by variant and target: the average's name, or a task. A target that a variant
            lacks is absent.
        contrasts: the contrasts, in the order of the grid.
        notes: what a reader of the tables must know: missing values, seeds that are not paired, metrics
            without row statistics.
        combinations: the sums of scores that were requested, in their order; None: no seed has all values.
    """

    average: str
    tasks: tuple[str, ...]
    level: float
    resamples: int
    seed: int
    variants: dict[str, dict[str, Estimate]]
    contrasts: tuple[ContrastResult, ...]
    notes: tuple[str, ...]
    combinations: tuple[Difference | None, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """All numbers, JSON-ready."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
