"""Errors of sets of labels: labels that were missed, and labels that do not hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.evaluation.errors.analysis import Analysis, Table
from weft.evaluation.errors.labels import label_table

MISSED, SPURIOUS = "missed label", "spurious label"


class LabelSetErrors(Analysis):
    """Any of C labels per example: gold and predictions are 0 or 1, [N, C]. Each wrong label is one error."""

    kinds = (MISSED, SPURIOUS)

    def _sides(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        return np.asarray(self.answered.gold) == 1, np.asarray(self.answered.predictions) == 1

    def errors(self) -> list[list[str]]:
        """One error per label that is wrong: missed ones first."""
        gold, predicted = self._sides()
        missed, spurious = (gold & ~predicted).sum(1), (predicted & ~gold).sum(1)
        return [
            [MISSED] * m + [SPURIOUS] * s for m, s in zip(missed.tolist(), spurious.tolist(), strict=True)
        ]

    def tables(self) -> list[Table]:
        """By label."""
        return [
            label_table("labels", "label", self.task.labels, *(side.astype(int) for side in self._sides()))
        ]

    def gold(self, i: int) -> Any:
        """The names of the labels that hold."""
        return self._names(self.answered.gold[i])

    def predicted(self, i: int) -> Any:
        """The names of the predicted labels."""
        return self._names(self.answered.predictions[i])

    def _names(self, flags: Any) -> list[str]:
        return [name for name, flag in zip(self.task.labels, flags, strict=True) if flag == 1]
