"""Outputs of a model that are not finite: no answer, no score and no vector is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.errors import RunFailed, words
from weft.utils.finite import NOT_FINITE

if TYPE_CHECKING:
    from weft.tasks.task import Task


class NotFinite(RunFailed):
    """Outputs of a model are NaN or infinite.

    Args:
        whose: the task, or what else the outputs are of.
        count: how many examples have such outputs.
        total: of how many.

    Attributes:
        what: what was found, without advice.
    """

    def __init__(self, whose: str, count: int, total: int) -> None:
        self._parts = whose, count, total
        self.what = f"{whose}: the model's outputs for {count:,} of {total:,} examples are {NOT_FINITE}"
        float32 = words("--precision float32", "precision='float32'")
        super().__init__(
            f"{self.what}.\n  if you chose a lower precision, use {float32}. Else the weights are too large, "
            "as after a training that diverged: train again with a smaller learning rate"
        )

    def __reduce__(self) -> tuple[type[NotFinite], tuple[str, int, int]]:
        """Pickle it, as processes send their errors to each other."""
        return type(self), self._parts


def check_logits(tasks: Sequence[Task], task: NDArray[np.int64], odd: NDArray[np.bool_]) -> None:
    """Raise `NotFinite` if examples have logits that are not finite; the error names their first task.

    Args:
        tasks: the tasks of the model.
        task: the task id of each example, [n].
        odd: whether each example has such logits, [n].
    """
    if not odd.any():
        return
    number = int(task[odd].min())
    of_task = task == number
    raise NotFinite(f"task {tasks[number].name!r}", int((odd & of_task).sum()), int(of_task.sum()))
