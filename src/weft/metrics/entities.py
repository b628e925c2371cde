"""Metrics of BIO tags. Gold is one (words, tags) per sentence, predictions are one list of tags per sentence.

`weft.metrics.bio` defines which entities the tags name, illegal tags included. A predicted entity is right if
the same sentence has a gold entity with the same type, first word and last word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.metrics.bio import entities
from weft.metrics.labels import f1_of
from weft.metrics.metric import metric
from weft.metrics.rows import Ratio
from weft.metrics.set_rows import SetF1

Sentences = Sequence[tuple[Sequence[str], Sequence[str]]]
Tags = Sequence[Sequence[str]]


def _entity_counts(gold: Sentences, predictions: Tags) -> NDArray[np.int64]:
    """How many entities of each sentence are right, how many are gold and how many are predicted, [N, 3]."""
    counts = [
        _counts(set(entities(tags)), set(entities(predicted)))
        for (_, tags), predicted in zip(gold, predictions, strict=True)
    ]
    return np.array(counts, np.int64).reshape(-1, 3)


def _f1_parts(gold: Sentences, predictions: Tags) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    right, gold_count, predicted_count = _entity_counts(gold, predictions).T
    return 2 * right, gold_count + predicted_count


def _precision_parts(gold: Sentences, predictions: Tags) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    right, _, predicted_count = _entity_counts(gold, predictions).T
    return right, predicted_count


def _recall_parts(gold: Sentences, predictions: Tags) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    right, gold_count, _ = _entity_counts(gold, predictions).T
    return right, gold_count


def _word_parts(gold: Sentences, predictions: Tags) -> tuple[list[int], list[int]]:
    right = [
        sum(tag == other for tag, other in zip(tags, predicted, strict=True))
        for (_, tags), predicted in zip(gold, predictions, strict=True)
    ]
    return right, [len(tags) for _, tags in gold]


def _surfaces_by_sentence(gold: Sentences, predictions: Tags) -> tuple[list[set[Any]], list[set[Any]]]:
    sides = [
        (_surfaces([words], [tags]), _surfaces([words], [predicted]))
        for (words, tags), predicted in zip(gold, predictions, strict=True)
    ]
    return [side[0] for side in sides], [side[1] for side in sides]


@metric("entities", rows=Ratio(_f1_parts))
def entity_f1(gold: Sentences, predictions: Tags, groups: object = None) -> float:
    """2·right/(gold + predicted) over the entities of all sentences together (micro)."""
    right, gold_count, predicted_count = _counts(_spans([tags for _, tags in gold]), _spans(predictions))
    return f1_of(right, gold_count + predicted_count)


@metric("entities", rows=Ratio(_precision_parts))
def entity_precision(gold: Sentences, predictions: Tags, groups: object = None) -> float:
    """The share of the predicted entities that are right; 0 if none is predicted."""
    right, _, predicted_count = _counts(_spans([tags for _, tags in gold]), _spans(predictions))
    return right / predicted_count if predicted_count else 0.0


@metric("entities", rows=Ratio(_recall_parts))
def entity_recall(gold: Sentences, predictions: Tags, groups: object = None) -> float:
    """The share of the gold entities that are predicted; 0 if there is none."""
    right, gold_count, _ = _counts(_spans([tags for _, tags in gold]), _spans(predictions))
    return right / gold_count if gold_count else 0.0


@metric("entities", rows=SetF1(_surfaces_by_sentence))
def surface_f1(gold: Sentences, predictions: Tags, groups: object = None) -> float:
    """WNUT17's F1 of surface forms: 2·right/(gold + predicted) over sets of (words, type).

    An entity's words are joined by spaces, with their case kept. Each pair counts once, however often it
    occurs and in whichever sentences.
    """
    words = [words for words, _ in gold]
    right, gold_count, predicted_count = _counts(
        _surfaces(words, [tags for _, tags in gold]), _surfaces(words, predictions)
    )
    return f1_of(right, gold_count + predicted_count)


@metric("tags", rows=Ratio(_word_parts))
def token_accuracy(gold: Sentences, predictions: Tags, groups: object = None) -> float:
    """The share of words with the right tag; words tagged `O` count too."""
    pairs = [
        pair
        for (_, tags), predicted in zip(gold, predictions, strict=True)
        for pair in zip(tags, predicted, strict=True)
    ]
    return sum(right == prediction for right, prediction in pairs) / len(pairs) if pairs else 0.0


def _spans(sentences: Tags) -> set[Any]:
    return {(number, *entity) for number, tags in enumerate(sentences) for entity in entities(tags)}


def _surfaces(words: Sequence[Sequence[str]], sentences: Tags) -> set[Any]:
    return {
        (" ".join(sentence[entity.first : entity.end]), entity.type)
        for sentence, tags in zip(words, sentences, strict=True)
        for entity in entities(tags)
    }


def _counts(gold: set[Any], predicted: set[Any]) -> tuple[int, int, int]:
    """How many are right, how many are gold and how many are predicted."""
    return len(gold & predicted), len(gold), len(predicted)
