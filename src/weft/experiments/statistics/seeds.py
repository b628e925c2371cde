"""How much scores of different seeds differ, over several variants: what a score of a further run is held to.

docs/reference/statistics.md has the equations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum, sqrt

from scipy.special import stdtrit


@dataclass(frozen=True)
class SeedSpread:
    """The standard deviation of a score between seeds.

    Attributes:
        deviation: s, the standard deviation.
        df: its degrees of freedom, ν.
    """

    deviation: float
    df: int

    def largest_difference(self, level: float = 0.95) -> float:
        """Half the width of the interval of a difference of two seeds of one variant: t_ν · √2 · s.

        Example:
            >>> round(SeedSpread(0.01, 4).largest_difference(), 4)
            0.0393

        Args:
            level: the level of the interval.
        """
        return float(stdtrit(self.df, (1 + level) / 2)) * sqrt(2) * self.deviation


def seed_spread(variants: Iterable[Sequence[float]]) -> SeedSpread | None:
    """The spread of seeds, pooled over variants; None if no variant has two seeds.

    With x_vs the score of variant v and seed s, and n_v seeds:

        s² = Σ_v Σ_s (x_vs − x̄_v)² / ν    ν = Σ_v (n_v − 1)

    Args:
        variants: the scores of each variant, one per seed.
    """
    squares: list[float] = []
    df = 0
    for scores in variants:
        if scores:
            mean = fsum(scores) / len(scores)
            squares += [(score - mean) ** 2 for score in scores]
            df += len(scores) - 1
    return SeedSpread(sqrt(fsum(squares) / df), df) if df else None
