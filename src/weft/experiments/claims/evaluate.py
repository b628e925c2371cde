"""Comparing claims with results.

With D the side that should be larger minus the other, a claim is *held* if the 95 % interval of D lies above
−margin, *not held* if it lies wholly below, and else *undecided*. Sums of scores have the interval of the
grid's statistics; other quantities have a paired t interval over seeds: D̄ ± t·s/√n with D computed for each
seed. Quantities that follow from the settings (parameter counts) are compared exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.experiments.claims.data import ClaimData, Interval
from weft.experiments.claims.functions import FUNCTIONS, SCORES
from weft.experiments.claims.language import Call, ParsedClaim, parse_claim
from weft.experiments.claims.values import linear, per_seed
from weft.experiments.measures import EXACT, VALUES

if TYPE_CHECKING:
    from weft.experiments.grid import Claim

HELD, NOT_HELD, UNDECIDED = VERDICTS = ("held", "not held", "undecided")
LEVEL = 0.95
FEWEST_SEEDS = 3
"""With fewer seeds nothing is decided that varies with the seed."""
MOST_SEEDS = 1000
"""More seeds than these are never suggested."""


@dataclass(frozen=True)
class ClaimResult:
    """A claim compared with results.

    Attributes:
        text: the sentence.
        test: its expression.
        verdict: one of `VERDICTS`.
        estimate: the difference that the claim says is above −margin; None: not computed.
        interval: its 95 % interval; None: not computed, or an exact comparison.
        margin: the margin.
        seeds: the number of seeds that were compared.
        why: the reason for the verdict; of an undecided claim also what it would take.
    """

    text: str
    test: str
    verdict: str
    estimate: float | None = None
    interval: tuple[float, float] | None = None
    margin: float = 0.0
    seeds: int = 0
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The result for JSON."""
        return {
            "text": self.text,
            "test": self.test,
            "verdict": self.verdict,
            "estimate": self.estimate,
            "interval": None if self.interval is None else list(self.interval),
            "margin": self.margin,
            "seeds": self.seeds,
            "why": self.why,
        }


def evaluate_claims(claims: Iterable[Claim], data: ClaimData) -> list[ClaimResult]:
    """Compare claims with results, in their order."""
    return [evaluate_claim(claim.text, claim.test, data) for claim in claims]


def all_held(results: Iterable[ClaimResult]) -> bool:
    """Whether every claim is held, as `--strict` requires."""
    return all(result.verdict == HELD for result in results)


def evaluate_claim(text: str, test: str, data: ClaimData) -> ClaimResult:
    """Compare one claim with results.

    Args:
        text: the sentence.
        test: its expression, which has been checked (`check_claim`).
        data: the results.
    """
    claim = parse_claim(test)
    try:
        values, missing = per_seed(claim.difference, data)
    except WeftError as wrong:  # a task that the runs do not have, for example
        return ClaimResult(text, test, UNDECIDED, margin=claim.margin, why=str(wrong))
    if not values:
        why = missing or "no seed has a finished run of every variant that the claim names"
        return ClaimResult(text, test, UNDECIDED, margin=claim.margin, why=why)
    numbers = [values[seed] for seed in sorted(values)]
    if _is_exact(claim, numbers):
        return _exact(text, test, claim, numbers)
    estimate = math.fsum(numbers) / len(numbers)
    if len(numbers) < FEWEST_SEEDS:
        why = (
            f"{_plural(len(numbers), 'seed')}; at least {FEWEST_SEEDS} are needed: seeds={FEWEST_SEEDS}"
            f"{'; ' + missing if missing else ''}"
        )
        return ClaimResult(text, test, UNDECIDED, estimate, None, claim.margin, len(numbers), why)
    interval = _interval(claim, data, numbers)
    verdict = _verdict(claim, interval)
    why = _why(claim, interval, verdict, len(numbers))
    if missing:
        why += f"; {missing}"
    ends = (interval.low, interval.high)
    return ClaimResult(text, test, verdict, interval.estimate, ends, claim.margin, len(numbers), why)


def t_interval(values: Sequence[float]) -> Interval:
    """The 95 % t interval of a mean: x̄ ± t(n − 1)·s/√n.

    Args:
        values: at least two numbers.
    """
    count = len(values)
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = _quantile(count - 1) * math.sqrt(variance / count)
    return Interval(mean, mean - half, mean + half, count - 1)


def seeds_needed(interval: Interval, distance: float, seeds: int) -> int | None:
    """How many seeds would make an interval shorter than the distance to the margin, if its centre stays.

    The standard error is taken to fall as 1/√n.

    Args:
        interval: the interval with `seeds` seeds.
        distance: |estimate + margin|.
        seeds: the number of seeds it comes from.

    Returns:
        None if it would take more than `MOST_SEEDS`.
    """
    half = (interval.high - interval.low) / 2
    degrees = seeds - 1 if interval.degrees is None else max(1.0, interval.degrees)
    deviation = half / _quantile(degrees) * math.sqrt(seeds)
    if deviation / math.sqrt(MOST_SEEDS) * _quantile(MOST_SEEDS - 1) >= distance:
        return None
    low, high = seeds, MOST_SEEDS  # the half-width falls with n: the smallest n by bisection
    while low < high:
        middle = (low + high) // 2
        if deviation / math.sqrt(middle) * _quantile(middle - 1) < distance:
            high = middle
        else:
            low = middle + 1
    return low


def _quantile(degrees: float) -> float:
    from scipy.stats import t

    return float(t.ppf(0.5 + LEVEL / 2, degrees))


def _interval(claim: ParsedClaim, data: ClaimData, numbers: Sequence[float]) -> Interval:
    """The interval of the grid's statistics for sums of scores, else the paired t interval."""
    terms = linear(claim.difference)
    if terms is not None:
        interval = data.difference_interval(terms.terms)
        if interval is not None:
            shift = terms.constant
            return Interval(
                interval.estimate + shift, interval.low + shift, interval.high + shift, interval.degrees
            )
    return t_interval(numbers)


def _is_exact(claim: ParsedClaim, numbers: Sequence[float]) -> bool:
    """Whether a claim is about quantities that follow from the settings, and did not vary."""
    return all(map(_does_not_vary, claim.calls)) and max(numbers) == min(numbers)


def _does_not_vary(call: Call) -> bool:
    if call.function == "measure":
        return VALUES.get(str(call.arguments[1])) in EXACT
    return FUNCTIONS[call.function].exact


def _exact(text: str, test: str, claim: ParsedClaim, numbers: Sequence[float]) -> ClaimResult:
    value = numbers[0]
    holds = value > -claim.margin or (value == -claim.margin and not claim.strict)
    why = f"exact: the difference is {_shown(value)}, and does not vary with the seed"
    verdict = HELD if holds else NOT_HELD
    return ClaimResult(text, test, verdict, value, None, claim.margin, len(numbers), why)


def _verdict(claim: ParsedClaim, interval: Interval) -> str:
    edge = -claim.margin
    if not math.isfinite(interval.low) or not math.isfinite(interval.high):
        return UNDECIDED
    if interval.low > edge or (interval.low == edge and not claim.strict):
        return HELD
    # numbers of tasks or steps are often equal; equal scores of few rows say nothing
    if interval.high < edge or (interval.high == edge and claim.strict and not _is_about_scores(claim)):
        return NOT_HELD
    return UNDECIDED


def _is_about_scores(claim: ParsedClaim) -> bool:
    return all(FUNCTIONS[call.function].source == SCORES for call in claim.calls)


def _why(claim: ParsedClaim, interval: Interval, verdict: str, seeds: int) -> str:
    edge = "0" if claim.margin == 0 else f"−{claim.margin:g}"
    ends = f"{_shown(interval.low)} to {_shown(interval.high)}"
    if verdict == HELD:
        return f"the interval {ends} lies above {edge} ({_plural(seeds, 'seed')})"
    if verdict == NOT_HELD:
        below = "lies below" if interval.high < -claim.margin else "does not lie above"
        return f"the interval {ends} {below} {edge} ({_plural(seeds, 'seed')})"
    if not math.isfinite(interval.low + interval.high):
        return "the interval is not finite"
    text = f"the interval {ends} contains {edge} ({_plural(seeds, 'seed')})"
    distance = abs(interval.estimate + claim.margin)
    needed = seeds_needed(interval, distance, seeds) if distance > 0 else None
    if needed is None:
        return f"{text}; with this difference more than {MOST_SEEDS} seeds would be needed"
    rows = (
        ", if the variation comes from seeds and not from the number of rows"
        if _is_about_scores(claim)
        else ""
    )
    return f"{text}; if the difference stays, about {needed} seeds decide{rows}"


def _shown(value: float) -> str:
    return f"{value:+.2f}" if abs(value) < 1000 else f"{value:+,.0f}"


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def counts(results: Iterable[ClaimResult]) -> Mapping[str, int]:
    """The number of claims by verdict."""
    verdicts = [result.verdict for result in results]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}
