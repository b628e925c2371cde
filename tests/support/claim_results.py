"""Results by hand, for claims and for words with numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.experiments.claims import Interval, Term


@dataclass
class Results:
    """Results by hand.

    Attributes:
        scores: variant → seed → task → score in points.
        facts: (function, variant) → seed → value.
        curves: variant → seed → curve.
        tasks: (series, variant) → seed → task → value.
        interval: what the statistics say; None: nothing.
    """

    scores: Mapping[str, Mapping[int, Mapping[str, float]]] = field(default_factory=dict)
    facts: Mapping[tuple[str, str], Mapping[int, float]] = field(default_factory=dict)
    curves: Mapping[str, Mapping[int, Sequence[tuple[int, Mapping[str, float]]]]] = field(
        default_factory=dict
    )
    tasks: Mapping[tuple[str, str | None], Mapping[int, Mapping[str, float]]] = field(default_factory=dict)
    interval: Interval | None = None
    asked: list[Sequence[Term]] = field(default_factory=list)

    def per_seed(self, function: str, variant: str, task: str | None = None) -> Mapping[int, float]:
        if function == "average":
            return {s: float(np.mean([*t.values()])) for s, t in self.scores.get(variant, {}).items()}
        if function == "score":
            return {s: t[task] for s, t in self.scores.get(variant, {}).items() if task in t}
        return self.facts.get((function, variant), {})

    def curve(self, variant: str):
        return self.curves.get(variant, {})

    def average_curve(self, variant: str):
        return {
            seed: [(step, float(np.mean([*scores.values()]))) for step, scores in curve]
            for seed, curve in self.curve(variant).items()
        }

    def series(self, name: str, variant: str | None):
        if name == "score":
            return self.scores.get(str(variant), {})
        return self.tasks.get((name, variant), {})

    def difference_interval(self, terms: Sequence[Term]) -> Interval | None:
        self.asked.append(terms)
        return self.interval


def two(a: Sequence[float], b: Sequence[float]) -> Results:
    """Two variants with one task each."""
    return Results({n: {s: {"cola": x} for s, x in enumerate(v, 1)} for n, v in (("a", a), ("b", b))})
