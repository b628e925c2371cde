"""Metrics of BIO tags. Gold is a list of (words, tags) of each sentence, found a list of tags.

Which entities tags name, illegal ones among them, `weft.metrics.bio` says. An entity is right if a gold
one of the same sentence has its type, its first and its last word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.metrics.bio import entities
from weft.metrics.labels import f1_of
from weft.metrics.metric import metric

Sentences = Sequence[tuple[Sequence[str], Sequence[str]]]
Tags = Sequence[Sequence[str]]


@metric("entities")
def entity_f1(gold: Sentences, found: Tags, groups: object = None) -> float:
    """2·right/(gold + found) over the entities of all sentences together (micro)."""
    right, theirs, ours = _counts(_spans([tags for _, tags in gold]), _spans(found))
    return f1_of(right, theirs + ours)


@metric("entities")
def entity_precision(gold: Sentences, found: Tags, groups: object = None) -> float:
    """The share of the found entities that are right; 0 where none is found."""
    right, _, ours = _counts(_spans([tags for _, tags in gold]), _spans(found))
    return right / ours if ours else 0.0


@metric("entities")
def entity_recall(gold: Sentences, found: Tags, groups: object = None) -> float:
    """The share of the gold entities that are found; 0 where there is none."""
    right, theirs, _ = _counts(_spans([tags for _, tags in gold]), _spans(found))
    return right / theirs if theirs else 0.0


@metric("entities")
def surface_f1(gold: Sentences, found: Tags, groups: object = None) -> float:
    """WNUT17's F1 of surface forms: 2·right/(gold + found) over sets of (words, type).

    An entity's words are joined by spaces, as they are written; each pair counts once, however often and in
    whichever sentences it occurs.
    """
    words = [words for words, _ in gold]
    right, theirs, ours = _counts(_surfaces(words, [tags for _, tags in gold]), _surfaces(words, found))
    return f1_of(right, theirs + ours)


@metric("tags")
def token_accuracy(gold: Sentences, found: Tags, groups: object = None) -> float:
    """The share of the words that have the right tag, `O` among them."""
    pairs = [
        pair for (_, tags), ours in zip(gold, found, strict=True) for pair in zip(tags, ours, strict=True)
    ]
    return sum(right == answer for right, answer in pairs) / len(pairs) if pairs else 0.0


def _spans(sentences: Tags) -> set[Any]:
    return {(number, *entity) for number, tags in enumerate(sentences) for entity in entities(tags)}


def _surfaces(words: Sequence[Sequence[str]], sentences: Tags) -> set[Any]:
    return {
        (" ".join(own[entity.first : entity.end]), entity.type)
        for own, tags in zip(words, sentences, strict=True)
        for entity in entities(tags)
    }


def _counts(theirs: set[Any], ours: set[Any]) -> tuple[int, int, int]:
    return len(theirs & ours), len(theirs), len(ours)
