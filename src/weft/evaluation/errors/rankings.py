"""Errors of rankings: at which rank the first relevant candidate is."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.evaluation.errors.analysis import COUNT, NUMBER, SHARE, TEXT, Analysis, Table, ratio

FIRST_IRRELEVANT, NOTHING_RELEVANT = "first candidate is irrelevant", "no relevant candidate"
RANKS = ((1, 1), (2, 2), (3, 3), (4, 5), (6, 10), (11, None))
"""The rows of the table of ranks: from, to."""


class RankingErrors(Analysis):
    """Gold is one relevance per candidate, predictions are one score per candidate.

    The rank of the first relevant candidate is 1 + the number of irrelevant ones whose score is at least that
    of the best relevant one: ties are broken against the model, as in `mrr`.
    """

    kinds = (FIRST_IRRELEVANT, NOTHING_RELEVANT)
    measure = "best score of an irrelevant candidate − best score of a relevant one"

    @cached_property
    def _ranks(self) -> list[int | None]:
        """The rank of each query's first relevant candidate; None if there is none."""
        ranks: list[int | None] = []
        for relevance, scores in zip(self.answered.gold, self.answered.predictions, strict=True):
            relevant, values = np.asarray(relevance) > 0, np.asarray(scores)
            best = values[relevant].max() if relevant.any() else None
            ranks.append(None if best is None else 1 + int((values[~relevant] >= best).sum()))
        return ranks

    def errors(self) -> list[list[str]]:
        """At most one error per query."""
        return [
            [NOTHING_RELEVANT] if rank is None else [FIRST_IRRELEVANT] if rank > 1 else []
            for rank in self._ranks
        ]

    def tables(self) -> list[Table]:
        """How often the first relevant candidate has which rank, and how many candidates there are then."""
        sizes = [len(scores) for scores in self.answered.predictions]
        rows = []
        for low, high in RANKS:
            members = [
                size
                for rank, size in zip(self._ranks, sizes, strict=True)
                if rank is not None and rank >= low and (high is None or rank <= high)
            ]
            rows.append(self._row(_named(low, high), members))
        without = [size for rank, size in zip(self._ranks, sizes, strict=True) if rank is None]
        rows.append(self._row(NOTHING_RELEVANT, without))
        columns = (("rank", TEXT), ("queries", COUNT), ("share", SHARE), ("mean candidates", NUMBER))
        return [Table("ranks", "The rank of the first relevant candidate", columns, rows)]

    def _row(self, name: str, sizes: list[int]) -> tuple[Any, ...]:
        mean = float(np.mean(sizes)) if sizes else None
        return name, len(sizes), ratio(len(sizes), len(self.answered)), mean

    def severity(self) -> NDArray[np.float64]:
        """How far the best irrelevant candidate is above the best relevant one, [N]; 0 if one is missing."""
        margins = []
        for relevance, scores in zip(self.answered.gold, self.answered.predictions, strict=True):
            relevant, values = np.asarray(relevance) > 0, np.asarray(scores, np.float64)
            both = relevant.any() and not relevant.all()
            margins.append(float(values[~relevant].max() - values[relevant].max()) if both else 0.0)
        return np.array(margins)

    def gold(self, i: int) -> Any:
        """The relevance of each candidate."""
        return [float(x) for x in self.answered.gold[i]]

    def predicted(self, i: int) -> Any:
        """The score of each candidate."""
        return [float(x) for x in self.answered.predictions[i]]


def _named(low: int, high: int | None) -> str:
    if high is None:
        return f"{low} and more"
    return str(low) if low == high else f"{low} to {high}"
