"""Errors of answers that are texts: how much of the gold text they have, by SQuAD's rules.

Each wrong answer has one kind, by its words and those of its nearest gold text, the one with the largest F1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from weft.evaluation.errors.analysis import COUNT, NUMBER, SHARE, TEXT, Analysis, Table, ratio
from weft.metrics.spans import plain, word_f1

EXACT = "exact"
NO_ANSWER, NO_GOLD = "no answer", "answer where there is none"
NO_COMMON, TOO_LONG, TOO_SHORT, PARTIAL = "no common word", "too long", "too short", "partial"


class Agreement(NamedTuple):
    """How much an answer agrees with its gold texts.

    Attributes:
        kind: `exact`, or the kind of error.
        f1: the F1 of its words and those of the nearest gold text.
        nearest: that text; empty if there is none.
    """

    kind: str
    f1: float
    nearest: str


def agreement(rights: Sequence[str], answer: str) -> Agreement:
    """Compare an answer with its gold texts.

    Args:
        rights: the gold texts; none, or an empty one, means that there is no answer.
        answer: the model's answer; an empty one means that there is none.
    """
    f1, nearest = max(((word_f1(right, answer), right) for right in rights), default=(0.0, ""))
    if any(plain(right) == plain(answer) for right in rights) or (not rights and not plain(answer)):
        return Agreement(EXACT, f1, nearest)
    if not plain(answer):
        return Agreement(NO_ANSWER, f1, nearest)
    if not any(plain(right) for right in rights):
        return Agreement(NO_GOLD, f1, nearest)
    if not f1:
        return Agreement(NO_COMMON, f1, nearest)
    gold, words = Counter(plain(nearest).split()), Counter(plain(answer).split())
    if gold < words:
        return Agreement(TOO_LONG, f1, nearest)
    return Agreement(TOO_SHORT if words < gold else PARTIAL, f1, nearest)


class TextErrors(Analysis):
    """One text per example: gold is a list of right texts, predictions are texts."""

    kinds = (NO_ANSWER, NO_GOLD, NO_COMMON, TOO_LONG, TOO_SHORT, PARTIAL)

    @cached_property
    def _agreements(self) -> list[Agreement]:
        pairs = zip(self.answered.gold, self.answered.predictions, strict=True)
        return [agreement(rights, answer) for rights, answer in pairs]

    def errors(self) -> list[list[str]]:
        """At most one error per example."""
        return [[] if a.kind == EXACT else [a.kind] for a in self._agreements]

    def tables(self) -> list[Table]:
        """How many answers are exact, and how many have each kind of error, with their mean F1; lengths."""
        rows = []
        for kind in (EXACT, *self.kinds):
            values = [a.f1 for a in self._agreements if a.kind == kind]
            mean = float(np.mean(values)) if values else None
            rows.append((kind, len(values), ratio(len(values), len(self.answered)), mean))
        columns = (("agreement", TEXT), ("examples", COUNT), ("share", SHARE), ("word F1", SHARE))
        lengths = [
            ("nearest gold text", _mean_words([a.nearest for a in self._agreements])),
            ("answer", _mean_words(self.answered.predictions)),
        ]
        words = (("text", TEXT), ("mean number of words", NUMBER))
        return [
            Table("answers", "How far answers agree with their gold texts", columns, rows),
            Table("lengths", "How long gold texts and answers are", words, lengths),
        ]

    def gold(self, i: int) -> Any:
        """The right texts."""
        return list(self.answered.gold[i])

    def predicted(self, i: int) -> Any:
        """The text."""
        return self.answered.predictions[i]


def _mean_words(texts: Sequence[str]) -> float:
    return float(np.mean([len(plain(text).split()) for text in texts])) if texts else 0.0
