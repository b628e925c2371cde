"""Makes target tensors for a batch's examples, of any mix of kinds.

The targets of a split are computed once, in one array (`TargetTable`), and then only gathered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.errors import WeftError
from weft.tasks.kinds.collate import Places
from weft.tasks.kinds.kind import Kind
from weft.tasks.task import Task

if TYPE_CHECKING:
    from weft.data.batching.collate import Gathered, Ints, Picked, Share
    from weft.data.tokens.tokens import Tokens


class Targets:
    """Makes one tensor per kind; examples of other kinds have a placeholder in it, which is never read.

    The width of a tensor depends on the model's tasks, never on the batch.

    Args:
        tasks: the model's tasks, in the order of their ids.
        kinds: the kind of each head shape.
    """

    def __init__(self, tasks: Sequence[Task], kinds: Mapping[str, Kind]) -> None:
        self._tasks = tasks
        self._kind_of = [kinds[task.head] for task in tasks]
        self._sizes: dict[
            str, tuple[Kind, int]
        ] = {}  # each kind by name, with the largest of its tasks' sizes
        for task, kind in zip(tasks, self._kind_of, strict=True):
            before = self._sizes[task.kind][1] if task.kind in self._sizes else 1
            self._sizes[task.kind] = (kind, max(before, task.size or 1))

    def collate(
        self, values: Sequence[Any], task: Tensor, example: Tensor | None, length: int
    ) -> dict[str, Tensor]:
        """Make target tensors from target values.

        Args:
            values: each example's target, E of them.
            task: the task id of each example, [E].
            example: the example of each row, [R]; None: each row is a separate example. Rows of example E, if
                there are any, are padding.
            length: the length of the rows, L.
        """
        ids = task.tolist()
        tasks = [self._tasks[t] for t in ids]
        for number, (value, t, example_task) in enumerate(zip(values, ids, tasks, strict=True)):
            try:
                self._kind_of[t].check(value, example_task.size or 0)
            except ValueError as wrong:
                raise bad_label(number, example_task, value, wrong) from None
        rows = list(range(len(tasks))) if example is None else example.tolist()
        idle = max(max(rows, default=-1) + 1 - len(tasks), 0)
        scaled = [example_task.target(value) for value, example_task in zip(values, tasks, strict=True)] + [
            None
        ] * idle
        targets = {}
        for name, (kind, size) in self._sizes.items():
            of_kind = [example_task.kind == name for example_task in tasks] + [False] * idle
            targets[name] = kind.collate(scaled, of_kind, Places(rows, length, size)).to(task.device)
        return targets

    def gather(self, chosen: Picked, rows: Gathered, task: Ints) -> dict[str, Tensor]:
        """Make target tensors from tokenized splits, whose targets are computed once and then only gathered.

        Args:
            chosen: the batch's examples, by split and task.
            rows: their rows.
            task: the task id of each example, [E].
        """
        owners = [int(task[share.examples[0]]) for share in chosen.shares]
        targets = {}
        for name, (kind, size) in self._sizes.items():
            shape: tuple[int, ...] = (rows.total, *kind.target_shape(size))
            if kind.targets_by == "row":
                shape = (len(rows.example), *kind.target_shape(size))
            elif kind.targets_by == "token":
                shape = rows.real.shape
            values = np.full(shape, kind.stand_in, kind.target_type)
            for share, places, t in zip(chosen.shares, rows.places, owners, strict=True):
                share_task = self._tasks[t]
                if share_task.kind != name:
                    continue
                table = target_table(share.tokens, self._kind_of[t], share_task)
                table.find(share)
                if kind.targets_by == "token":
                    table_values = table.values.take(places, mode="clip")
                    values[share.at] = np.where(rows.real[share.at], table_values, kind.stand_in)
                elif kind.targets_by == "row":
                    values[share.at] = table.values[share.rows]
                elif values.ndim == 2:  # a task of a smaller size has fewer columns
                    table_values = table.values[share.which]
                    values[share.examples, : table_values.shape[1]] = table_values
                else:
                    values[share.examples] = table.values[share.which]
            targets[name] = torch.from_numpy(values)
        return targets


class TargetTable:
    """The targets of a split's examples, computed when they are first needed.

    They have the kind's `kept_type`; a batch converts them to its wider type. Two threads may compute one at
    once, with the same result.

    Args:
        tokens: the split, with labels.
        kind: the task's kind.
        task: the model's task, with its range and size.

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
        """Fill `values` with the targets of these examples."""
        if self._known is None:
            return
        unknown = np.flatnonzero(~self._known[share.which])
        for place in unknown.tolist():
            i = int(share.which[place])
            self._put(i, int(share.examples[place]))
            self._known[i] = True  # last: another thread may read it

    def _put(self, i: int, number: int) -> None:
        """Compute the target of example i, which is the batch's example `number`."""
        tokens, task = self._tokens, self._task
        value: Any = tokens.target(i)
        try:
            self._kind.check(value, task.size or 0)
        except ValueError as wrong:
            raise bad_label(number, task, value, wrong) from None
        target = self._kind.as_array(task.target(value), self._size)
        if self._kind.targets_by == "example":
            self.values[i] = target
            return
        rows = tokens.rows_of(i)
        first, stop = rows.start, rows.stop
        if self._kind.targets_by == "token":
            first, stop = int(tokens.offsets[first]), int(tokens.offsets[stop])
        if len(target) != stop - first:
            counts = f"{len(target)} targets for {stop - first} {self._kind.targets_by}s"
            raise WeftError(f"example {number}: {counts}; expected one for each {self._kind.targets_by}")
        self.values[first:stop] = target


def target_table(tokens: Tokens, kind: Kind, task: Task) -> TargetTable:
    """Return the table of a split for a model's task; it is cached in the split."""
    key = ("targets", task.kind, task.size, task.scale)
    table: TargetTable | None = tokens.kept.get(key)
    if table is None:
        # two threads that make it at once use the same one
        table = tokens.kept.setdefault(key, TargetTable(tokens, kind, task))
    return table


def bad_label(number: int, task: Task, value: object, wrong: ValueError) -> WeftError:
    """Return the error for a wrong label of a batch's example."""
    return WeftError(f"example {number}, task {task.name!r}: label {value!r}; expected {wrong}")
