"""A split's targets in one array, each found once and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.data.batching.collate import Share
    from weft.data.tokens.tokens import Tokens
    from weft.tasks.kinds.kind import Kind
    from weft.tasks.task import Task


class TargetTable:
    """The targets of a split's examples, found as they are first asked for.

    In numbers as a batch has them, but of the kind's `kept_type`: a batch widens them.

    Two threads may ask at once: they would find the same.

    Args:
        tokens: the split, with labels.
        kind: of the task.
        task: the model's task, whose range and size decide.

    Attributes:
        values: by example [n, …], by row [R, …] or by token [tokens], as the kind's `targets_by` says.
    """

    def __init__(self, tokens: Tokens, kind: Kind, task: Task) -> None:
        self._tokens, self._kind, self._task = tokens, kind, task
        self._size = task.size or 1
        count = {"example": len(tokens), "row": len(tokens.row_lengths), "token": int(tokens.offsets[-1])}
        shape = (count[kind.targets_by], *kind.target_shape(self._size))
        whole = kind.table(tokens.labels or (), task) if len(tokens) else None
        self._known: NDArray[np.bool_] | None = None if whole is not None else np.zeros(len(tokens), bool)
        kept = kind.kept_type or kind.target_type
        self.values: NDArray[Any] = np.zeros(shape, kept) if whole is None else whole

    def find(self, share: Share) -> None:
        """See to it that `values` has the targets of these examples."""
        if self._known is None:
            return
        unknown = np.flatnonzero(~self._known[share.which])
        for place in unknown.tolist():
            i = int(share.which[place])
            self._put(i, int(share.examples[place]))
            self._known[i] = True  # last: another thread may look

    def _put(self, i: int, number: int) -> None:
        """Find the target of example i, which is the batch's example `number`."""
        tokens, task = self._tokens, self._task
        value: Any = tokens.target(i)
        try:
            self._kind.check(value, task.size or 0)
        except ValueError as wrong:
            raise bad_label(number, task, value, wrong) from None
        found = self._kind.as_array(task.target(value), self._size)
        if self._kind.targets_by == "example":
            self.values[i] = found
            return
        rows = tokens.rows_of(i)
        first, stop = rows.start, rows.stop
        if self._kind.targets_by == "token":
            first, stop = int(tokens.offsets[first]), int(tokens.offsets[stop])
        if len(found) != stop - first:
            told = f"{len(found)} targets for {stop - first} {self._kind.targets_by}s"
            raise WeftError(f"example {number}: {told}; expected one for each {self._kind.targets_by}")
        self.values[first:stop] = found


def target_table(tokens: Tokens, kind: Kind, task: Task) -> TargetTable:
    """The table of a split under a task of a model, kept with the split."""
    key = ("targets", task.kind, task.size, task.range)
    table: TargetTable | None = tokens.kept.get(key)
    if table is None:
        # of two threads that make it at once, one's is kept by both
        table = tokens.kept.setdefault(key, TargetTable(tokens, kind, task))
    return table


def bad_label(number: int, task: Task, value: object, wrong: ValueError) -> WeftError:
    """What is wrong with the label of a batch's example."""
    return WeftError(f"example {number}, task {task.name!r}: label {value!r}; expected {wrong}")
