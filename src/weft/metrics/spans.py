"""Metrics of answers that are texts, by the rules of SQuAD v1.1.

Gold is a list of lists of right texts, found a list of texts; each answer counts by the best of its right
texts. Before two texts are compared, both are brought to one form: lower case, ASCII punctuation dropped, the
words a, an and the dropped, white space made single.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from weft.metrics.metric import metric

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@metric("texts")
def exact_match(gold: Sequence[Sequence[str]], found: Sequence[str], groups: object = None) -> float:
    """The share of answers that are one of their right texts."""
    return _mean_of_best(lambda right, answer: float(plain(right) == plain(answer)), gold, found)


@metric("texts")
def token_f1(gold: Sequence[Sequence[str]], found: Sequence[str], groups: object = None) -> float:
    """The mean F1 of the answers' words, those that occur twice counted twice.

    F1 = 2·c/(n + m), c the common words of n and m; 0 where none is common, even if both have none (v1.1).
    """
    return _mean_of_best(_f1, gold, found)


def plain(text: str) -> str:
    """A text in the form in which two are compared."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _f1(right: str, answer: str) -> float:
    theirs, ours = plain(right).split(), plain(answer).split()
    common = (Counter(theirs) & Counter(ours)).total()
    return 2 * common / (len(theirs) + len(ours)) if common else 0.0


def _mean_of_best(
    measure: Callable[[str, str], float], gold: Sequence[Sequence[str]], found: Sequence[str]
) -> float:
    best = [
        max((measure(right, answer) for right in rights), default=0.0)
        for rights, answer in zip(gold, found, strict=True)
    ]
    return sum(best) / len(best) if best else 0.0
