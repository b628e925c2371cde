"""Errors of one label per example: precision and recall by label, and which labels are confused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.evaluation.errors.analysis import (
    BY_LABEL,
    COUNT,
    SHARE,
    TEXT,
    WIDEST,
    Analysis,
    Matrix,
    Table,
    ratio,
)

PAIRS = 20
"""The table of confusions has at most so many pairs."""


def label_table(name: str, first: str, names: tuple[str, ...], gold: Any, predicted: Any) -> Table:
    """Return precision, recall and F1 by label.

    Args:
        name: the table's name.
        first: what a row is: a label or a tag.
        names: the names of the C labels.
        gold: ids [N], or 0 and 1 for each label, [N, C].
        predicted: the same of the model.
    """
    from sklearn.metrics import precision_recall_fscore_support

    ids = np.arange(len(names))
    gold, predicted = np.asarray(gold), np.asarray(predicted)
    precision, recall, f1, _ = precision_recall_fscore_support(
        gold, predicted, labels=ids, average=None, zero_division=0
    )
    flags = [side if side.ndim == 2 else side[:, None] == ids for side in (gold, predicted)]
    counts = [(side == 1).sum(0) for side in (*flags, (flags[0] == 1) & (flags[1] == 1))]
    rows = [
        (names[c], *(int(side[c]) for side in counts), float(precision[c]), float(recall[c]), float(f1[c]))
        for c in range(len(names))
    ]
    return Table(name, f"Precision and recall by {first}", ((first, TEXT), *BY_LABEL), rows)


def confusions(counts: NDArray[np.int64], names: tuple[str, ...], of: str) -> Table:
    """Return the most frequent pairs of different gold and predicted labels.

    Args:
        counts: the confusion matrix, [C, C].
        names: the names of the labels.
        of: what has a label: examples or words.
    """
    gold, predicted = np.nonzero(counts * (1 - np.eye(len(names), dtype=counts.dtype)))
    pairs = sorted(
        zip(gold.tolist(), predicted.tolist(), strict=True), key=lambda pair: (-counts[pair], pair)
    )
    rows = [
        (names[g], names[p], int(counts[g, p]), ratio(int(counts[g, p]), int(counts[g].sum())))
        for g, p in pairs[:PAIRS]
    ]
    columns = (("gold", TEXT), ("predicted", TEXT), (of, COUNT), ("share of gold", SHARE))
    return Table("confusions", "The most frequent confusions", columns, rows)


def label_matrix(name: str, what: str, names: tuple[str, ...], counts: NDArray[np.int64]) -> list[Matrix]:
    """Return the confusion matrix, unless there are too many labels to look at."""
    title = f"Gold {what} (rows) and predicted {what} (columns)"
    return [Matrix(name, title, names, names, counts)] if len(names) <= WIDEST else []


class LabelErrors(Analysis):
    """One of C labels per example: gold and predictions are ids, [N]."""

    kinds = ("wrong label",)

    @property
    def counts(self) -> NDArray[np.int64]:
        """The confusion matrix, [C, C]: gold by predicted label."""
        from sklearn.metrics import confusion_matrix

        gold, predicted = np.asarray(self.answered.gold), np.asarray(self.answered.predictions)
        matrix: NDArray[np.int64] = confusion_matrix(gold, predicted, labels=np.arange(len(self.task.labels)))
        return matrix

    def errors(self) -> list[list[str]]:
        """One error per wrong label."""
        pairs = zip(self.answered.gold, self.answered.predictions, strict=True)
        return [[] if int(gold) == int(predicted) else [self.kinds[0]] for gold, predicted in pairs]

    def tables(self) -> list[Table]:
        """By label, and the most frequent confusions."""
        names = self.task.labels
        table = label_table("labels", "label", names, self.answered.gold, self.answered.predictions)
        return [table, confusions(self.counts, names, "examples")]

    def matrices(self) -> list[Matrix]:
        """Gold label against predicted label."""
        return label_matrix("labels", "label", self.task.labels, self.counts)

    def gold(self, i: int) -> str:
        """The label's name."""
        return self.task.labels[int(self.answered.gold[i])]

    def predicted(self, i: int) -> str:
        """The label's name."""
        return self.task.labels[int(self.answered.predictions[i])]
