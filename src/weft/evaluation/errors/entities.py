"""Errors of entities: missed and spurious ones, wrong types and wrong boundaries.

A predicted entity is right if type, first and last word are those of a gold entity. The others are paired by
their words, each with at most one of the other side, so that every error is counted once:

1. same words, different type: wrong type;
2. same type, some words in common: wrong boundary;
3. some words in common: wrong type and boundary;
4. what is left: gold entities are missed, predicted ones are spurious.

Pairs with more words in common come first. Therefore

    gold − right = missed + wrong type + wrong boundary + both,
    predicted − right = spurious + wrong type + wrong boundary + both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from weft.evaluation.errors.analysis import BY_LABEL, TEXT, WIDEST, Analysis, Matrix, Table, label_cells
from weft.metrics.bio import Entity, entities

MISSED, SPURIOUS = "missed", "spurious"
WRONG_TYPE, WRONG_BOUNDARY, WRONG_BOTH = "wrong type", "wrong boundary", "wrong type and boundary"
NONE = "(none)"
"""The name of "no entity" in the confusion matrix."""


class EntityError(NamedTuple):
    """One error: its kind, and the gold and the predicted entity, one of which may be None."""

    kind: str
    gold: Entity | None
    predicted: Entity | None


def entity_errors(gold: Sequence[Entity], predicted: Sequence[Entity]) -> list[EntityError]:
    """Return the errors of one sentence, in the order of its words.

    Args:
        gold: the gold entities, which do not overlap.
        predicted: the predicted entities, which do not overlap.
    """
    right = set(gold) & set(predicted)
    left = [entity for entity in gold if entity not in right]
    others = [entity for entity in predicted if entity not in right]
    pairs = []
    for g in left:
        for p in others:
            common = min(g.end, p.end) - max(g.first, p.first)
            if common > 0:
                kind = _kind(g, p)
                order = (WRONG_TYPE, WRONG_BOUNDARY, WRONG_BOTH).index(kind)
                pairs.append((order, -common, g.first, p.first, EntityError(kind, g, p)))
    errors: list[EntityError] = []
    free = {*left, *others}
    for *_, error in sorted(pairs, key=lambda pair: pair[:4]):
        if error.gold in free and error.predicted in free:
            errors.append(error)
            free -= {error.gold, error.predicted}
    errors += [EntityError(MISSED, entity, None) for entity in left if entity in free]
    errors += [EntityError(SPURIOUS, None, entity) for entity in others if entity in free]
    return sorted(errors, key=_place)


def _kind(gold: Entity, predicted: Entity) -> str:
    if (gold.first, gold.end) == (predicted.first, predicted.end):
        return WRONG_TYPE
    return WRONG_BOUNDARY if gold.type == predicted.type else WRONG_BOTH


def _place(error: EntityError) -> int:
    return min(entity.first for entity in (error.gold, error.predicted) if entity is not None)


class EntityErrors(Analysis):
    """Entities of BIO tags: gold is (words, tags) per sentence, predictions are tags."""

    kinds = (MISSED, SPURIOUS, WRONG_TYPE, WRONG_BOUNDARY, WRONG_BOTH)

    @cached_property
    def _sides(self) -> list[tuple[list[Entity], list[Entity]]]:
        pairs = zip(self.answered.gold, self.answered.predictions, strict=True)
        return [(entities(tags), entities(predicted)) for (_, tags), predicted in pairs]

    @cached_property
    def _errors(self) -> list[list[EntityError]]:
        return [entity_errors(*sides) for sides in self._sides]

    def errors(self) -> list[list[str]]:
        """The kinds of each sentence's errors."""
        return [[error.kind for error in of_sentence] for of_sentence in self._errors]

    def _types(self) -> list[str]:
        """The types that the labels name, in their order."""
        return list(dict.fromkeys(label.partition("-")[2] for label in self.task.labels if label != "O"))

    def tables(self) -> list[Table]:
        """Precision and recall by type."""
        gold = Counter(entity.type for side, _ in self._sides for entity in side)
        predicted = Counter(entity.type for _, side in self._sides for entity in side)
        right = Counter(e.type for sides in self._sides for e in set(sides[0]) & set(sides[1]))
        rows = [(name, *label_cells(gold[name], predicted[name], right[name])) for name in self._types()]
        return [Table("entities", "Precision and recall by type", (("type", TEXT), *BY_LABEL), rows)]

    def matrices(self) -> list[Matrix]:
        """Types of gold entities against those predicted at the same place, with missed and spurious ones."""
        names = [*self._types(), NONE]
        if len(names) > WIDEST:
            return []
        place = {name: number for number, name in enumerate(names)}
        counts = np.zeros((len(names), len(names)), np.int64)
        for (gold, predicted), errors in zip(self._sides, self._errors, strict=True):
            for entity in set(gold) & set(predicted):
                counts[place[entity.type], place[entity.type]] += 1
            for error in errors:
                sides = [NONE if side is None else side.type for side in (error.gold, error.predicted)]
                counts[place[sides[0]], place[sides[1]]] += 1
        return [Matrix("entities", "Gold type (rows) and predicted type (columns)", names, names, counts)]

    def gold(self, i: int) -> Any:
        """One tag per word."""
        return list(self.answered.gold[i][1])

    def predicted(self, i: int) -> Any:
        """One tag per word."""
        return list(self.answered.predictions[i])

    def details(self, i: int) -> list[dict[str, Any]]:
        """Each error with its two entities."""
        words = self.answered.gold[i][0]
        return [
            {"kind": e.kind, "gold": _shown(e.gold, words), "predicted": _shown(e.predicted, words)}
            for e in self._errors[i]
        ]


def _shown(entity: Entity | None, words: Sequence[str]) -> dict[str, Any] | None:
    if entity is None:
        return None
    text = " ".join(words[entity.first : entity.end])
    return {"type": entity.type, "text": text, "first": entity.first, "last": entity.end - 1}
