"""Metrics of answers that are texts, by the rules of SQuAD v1.1.

Gold is one list of right texts per example, predictions are one text per example. A prediction is compared
with each of its right texts, and the best result counts. Both texts are normalized first: lower case, ASCII
punctuation removed, the words a, an and the removed, white space collapsed.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from weft.metrics.metric import metric
from weft.metrics.rows import Mean

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)

Texts = Sequence[Sequence[str]]


def plain(text: str) -> str:
    """Normalize a text for comparison."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _same(right: str, answer: str) -> float:
    return float(plain(right) == plain(answer))


def word_f1(right: str, answer: str) -> float:
    """2·c/(n + m) for c common words of n and m; 0 if no word is common."""
    right_words, answer_words = plain(right).split(), plain(answer).split()
    common = (Counter(right_words) & Counter(answer_words)).total()
    return 2 * common / (len(right_words) + len(answer_words)) if common else 0.0


def _best(measure: Callable[[str, str], float]) -> Callable[[Texts, Sequence[str]], list[float]]:
    """Return the function that compares each answer with its right texts, [N]; the best result counts."""

    def values(gold: Texts, predictions: Sequence[str]) -> list[float]:
        return [
            max((measure(right, answer) for right in rights), default=0.0)
            for rights, answer in zip(gold, predictions, strict=True)
        ]

    return values


_MATCHES, _BEST_F1 = _best(_same), _best(word_f1)


@metric("texts", rows=Mean(_MATCHES))
def exact_match(gold: Sequence[Sequence[str]], predictions: Sequence[str], groups: object = None) -> float:
    """The share of predictions that equal one of their right texts."""
    return _mean(_MATCHES(gold, predictions))


@metric("texts", rows=Mean(_BEST_F1))
def token_f1(gold: Sequence[Sequence[str]], predictions: Sequence[str], groups: object = None) -> float:
    """The mean F1 of the words of predictions; a word that occurs twice counts twice.

    F1 = 2·c/(n + m) for c common words of n and m; 0 if no word is common, even if both are empty (v1.1).
    """
    return _mean(_BEST_F1(gold, predictions))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
