"""What claims are compared with: an interface that the results of a grid implement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class Term(NamedTuple):
    """One term of a sum of scores: factor · average(variant), or factor · score(variant, task)."""

    factor: float
    variant: str
    task: str | None = None


class Interval(NamedTuple):
    """A 95 % confidence interval.

    Attributes:
        estimate: the estimate.
        low: the lower end.
        high: the upper end.
        degrees: the degrees of freedom of the t distribution it comes from; None: not known.
    """

    estimate: float
    low: float
    high: float
    degrees: float | None = None


Curve = Sequence[tuple[int, Mapping[str, float]]]
"""The evaluations during training, ascending: the step, and the score of each task in points."""


AverageCurve = Sequence[tuple[int, float]]
"""The evaluations during training, ascending: the step, and the average of the grid in points."""


class ClaimData(Protocol):
    """The results of a grid, as claims read them. Seeds without a finished run are left out."""

    def per_seed(
        self, function: str, variant: str, task: str | None = None, of: Sequence[str] = ()
    ) -> Mapping[int, float]:
        """The value of each seed's run.

        Args:
            function: `average` or `score` (points, 0 to 100); `spread` (points); `parameters` (percent of the
                encoder); `total_ratio`; `seconds`; `memory` (GiB); `measure` (see `measures` of a grid).
            variant: the variant.
            task: of `score`, the task; of `measure`, the name of the value.
            of: of `measure`, the task or the two tasks whose value it is; (): the mean of all.
        """
        ...

    def curve(self, variant: str) -> Mapping[int, Curve]:
        """The evaluations of each seed's run."""
        ...

    def average_curve(self, variant: str) -> Mapping[int, AverageCurve]:
        """The average of the grid at each evaluation of each seed's run."""
        ...

    def series(self, name: str, variant: str | None) -> Mapping[int, Mapping[str, float]]:
        """The values per task of each seed's run.

        Args:
            name: `score`, or the name of a measure with values per task, such as `first_peak`.
            variant: the variant; None: the only one, or any one if the values follow from the data alone.
        """
        ...

    def difference_interval(self, terms: Sequence[Term]) -> Interval | None:
        """The 95 % interval of Σ factor · score, in points; None if it cannot be computed."""
        ...
