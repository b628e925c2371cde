"""Errors of choices: positions that the model prefers, and how hard many choices are."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.evaluation.errors.analysis import BY_LABEL, COUNT, SHARE, TEXT, Analysis, Table, label_cells, ratio


class ChoiceErrors(Analysis):
    """One of several candidates per example, read from the decisions; several candidates may be right."""

    kinds = ("wrong choice",)

    @cached_property
    def _right(self) -> NDArray[np.bool_]:
        decisions = self.answered.decisions
        return np.asarray(self.answered.predictions) == 1 if decisions is None else decisions.is_right

    def errors(self) -> list[list[str]]:
        """One error per wrong choice."""
        return [[] if right else [self.kinds[0]] for right in self._right.tolist()]

    def tables(self) -> list[Table]:
        """By position, and by the number of choices beside what chance would reach."""
        decisions = self.answered.decisions
        if decisions is None:
            return []
        sizes, chosen = decisions.sizes, decisions.chosen - decisions.starts
        # the position of every option among those of its decision, [S]
        position = np.arange(len(decisions.scores)) - decisions.starts.repeat(sizes)
        most = int(sizes.max(initial=0))
        gold = np.bincount(position[decisions.right], minlength=most)
        predicted = np.bincount(chosen, minlength=most)
        right = np.bincount(chosen[self._right], minlength=most)
        rows = [(str(i), *label_cells(gold[i], predicted[i], right[i])) for i in range(most)]
        share_right = np.add.reduceat(decisions.right.astype(float), decisions.starts) / sizes
        by_size = []
        for size in np.unique(sizes).tolist():
            of_size = sizes == size
            count = int(of_size.sum())
            by_size.append(
                (
                    str(size),
                    count,
                    ratio(int(self._right[of_size].sum()), count),
                    float(share_right[of_size].mean()),
                )
            )
        columns = (("choices", TEXT), ("examples", COUNT), ("right", SHARE), ("right by chance", SHARE))
        return [
            Table("positions", "Precision and recall by position", (("position", TEXT), *BY_LABEL), rows),
            Table("choices", "Right answers by number of choices", columns, by_size),
        ]

    def gold(self, i: int) -> Any:
        """The indices of the right choices."""
        decisions = self.answered.decisions
        if decisions is None:
            return None
        start, size = int(decisions.starts[i]), int(decisions.sizes[i])
        return np.flatnonzero(decisions.right[start : start + size]).tolist()

    def predicted(self, i: int) -> Any:
        """The index of the choice."""
        decisions = self.answered.decisions
        return None if decisions is None else int(decisions.chosen[i] - decisions.starts[i])
