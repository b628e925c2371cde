"""Errors of tags: precision and recall by tag, over the words of all sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.evaluation.errors.analysis import Analysis, Matrix, Table
from weft.evaluation.errors.labels import confusions, label_matrix, label_table


class TagErrors(Analysis):
    """One tag per word: gold is (words, tags) per sentence, predictions are tags. Each word is one error."""

    kinds = ("wrong tag",)

    def _ids(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The ids of all words' tags, [W] each."""
        ids = {name: number for number, name in enumerate(self.task.labels)}
        gold = [ids[tag] for _, tags in self.answered.gold for tag in tags]
        predicted = [ids[tag] for tags in self.answered.predictions for tag in tags]
        return np.array(gold, np.int64), np.array(predicted, np.int64)

    def _counts(self) -> NDArray[np.int64]:
        from sklearn.metrics import confusion_matrix

        matrix: NDArray[np.int64] = confusion_matrix(*self._ids(), labels=np.arange(len(self.task.labels)))
        return matrix

    def errors(self) -> list[list[str]]:
        """One error per wrong word."""
        pairs = zip(self.answered.gold, self.answered.predictions, strict=True)
        return [
            [self.kinds[0] for right, tag in zip(tags, predicted, strict=True) if right != tag]
            for (_, tags), predicted in pairs
        ]

    def tables(self) -> list[Table]:
        """By tag, and the most frequent confusions."""
        names = self.task.labels
        return [label_table("tags", "tag", names, *self._ids()), confusions(self._counts(), names, "words")]

    def matrices(self) -> list[Matrix]:
        """Gold tag against predicted tag."""
        return label_matrix("tags", "tag", self.task.labels, self._counts())

    def gold(self, i: int) -> Any:
        """One tag per word."""
        return list(self.answered.gold[i][1])

    def predicted(self, i: int) -> Any:
        """One tag per word."""
        return list(self.answered.predictions[i])
