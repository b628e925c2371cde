"""Verdicts: Holm's correction, what could have been shown, and what would be needed.

A verdict needs at least three seeds, a p value below 5 % after Holm's correction over all contrasts of the
table, and a 95 % interval that does not contain the tested value. The probability that a table in which
nothing differs has any verdict but `undecided` is then at most 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from scipy.special import stdtrit

from weft.experiments.statistics.components import Components
from weft.experiments.statistics.intervals import critical, critical_distance, interval, p_value
from weft.experiments.statistics.results import BETTER, HELD, NOT_HELD, UNDECIDED, WORSE, Needs

LEAST_SEEDS = 3
"""With fewer seeds the seed part has one degree of freedom or none, and nothing is decided."""
POWER = 0.8
_MOST_SEEDS = 1_000


@dataclass(frozen=True)
class Verdict:
    """The verdict on one contrast; the fields are those of `ContrastResult`."""

    p: float | None = None
    p_holm: float | None = None
    verdict: str | None = None
    reason: str | None = None
    smallest: float | None = None
    needs: Needs | None = None


def holm(values: Sequence[float]) -> list[float]:
    """Return p values with Holm's step-down correction, in the same order.

    The k-th smallest of m values is multiplied by m − k + 1, and no value is below one that was smaller.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(values)), key=lambda i: values[i])
    corrected, largest = [0.0] * len(values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, values[i] * (len(values) - rank)))
        corrected[i] = largest
    return corrected


def verdicts(
    contrasts: Sequence[tuple[Components | None, float | None]], level: float = 0.95
) -> list[Verdict]:
    """Decide the contrasts of one table together.

    Args:
        contrasts: the components of each difference of the average (None: a value is missing), and its
            margin (None: whether the variants differ).
        level: the level of the intervals; 1 − level is the probability of any false verdict in the table.
    """
    tested = []
    found = [Verdict(reason=_reason(parts)) for parts, _ in contrasts]
    for number, (parts, margin) in enumerate(contrasts):
        if parts is not None and found[number].reason is None:
            distance = abs(parts.estimate + (margin or 0.0))
            tested.append((number, parts, margin, distance, p_value(distance, parts) or 0.0))
    corrected = holm([p for *_, p in tested])
    strict = (1 - level) / max(1, len(tested))
    for (number, parts, margin, distance, p), p_holm in zip(tested, corrected, strict=True):
        limits = interval(parts, level)
        value = -(margin or 0.0)
        decided = p_holm < 1 - level and limits is not None and not limits[0] <= value <= limits[1]
        words = (BETTER, WORSE) if margin is None else (HELD, NOT_HELD)
        verdict = (words[0] if parts.estimate > value else words[1]) if decided else UNDECIDED
        needs = None if decided else needed(distance, parts, strict)
        found[number] = Verdict(p, p_holm, verdict, None, smallest_shown(parts, strict), needs)
    return found


def smallest_shown(parts: Components, level: float) -> float:
    """Return the true difference from the tested value that is shown with a probability of 80 %.

    The estimate must lie `critical(level)` away from the tested value. It does so with a probability of 80 %
    if the truth lies t_{ν, 0.8} standard errors further.

    Args:
        parts: the variances.
        level: the corrected level: (1 − 0.95)/contrasts, that of Holm's first step.
    """
    return critical(level, parts) + float(stdtrit(parts.df, POWER)) * sqrt(parts.variance or 0.0)


def needed(distance: float, parts: Components, level: float) -> Needs:
    """Return about how many seeds would decide a contrast, if estimate and variances stay as they are.

    With n' seeds the seed part is V_seeds·n/n' and has n' − 1 degrees of freedom; the row part stays.

    Args:
        distance: |estimate − tested value|.
        parts: the variances.
        level: the corrected level.
    """
    seed, row = parts.seed_variance or 0.0, parts.row_variance or 0.0
    if row > 0 and critical_distance(level, 0.0, 1.0, row, parts.row_df) >= distance:
        return Needs(None, True)

    def decides(seeds: int) -> bool:
        df = parts.seed_df * (seeds - 1) / (parts.seeds - 1)
        limit = critical_distance(level, seed * parts.seeds / seeds, df, row, parts.row_df)
        return limit < distance

    low, high = parts.seeds, _MOST_SEEDS
    if not decides(high):
        return Needs(None, False)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decides(middle) else (middle, high)
    return Needs(high, False)


def _reason(parts: Components | None) -> str | None:
    """Why there can be no verdict; None if there can be one."""
    if parts is None:
        return "a value of the average is missing"
    if parts.seeds < LEAST_SEEDS:
        return f"needs at least {LEAST_SEEDS} seeds; has {parts.seeds}"
    if not parts.variance:
        return "the runs do not vary: neither seeds nor rows make a difference"
    return None
