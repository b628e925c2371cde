"""The targets of a batch's examples, of any mix of kinds, as tensors.

Those of a split are found once, in one array (`TargetTable`), and then only gathered.
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
    """Makes one tensor a kind; an example of another kind has a stand-in there, which nothing reads.

    How wide a tensor is follows from the model's tasks, never from the batch.

    Args:
        tasks: those of the model, by their ids.
        kinds: the kind of each head shape.
    """

    def __init__(self, tasks: Sequence[Task], kinds: Mapping[str, Kind]) -> None:
        self._tasks = tasks
        self._kind_of = [kinds[one.head] for one in tasks]
        self._sizes: dict[
            str, tuple[Kind, int]
        ] = {}  # each kind by name, with the largest of its tasks' sizes
        for one, kind in zip(tasks, self._kind_of, strict=True):
            before = self._sizes[one.kind][1] if one.kind in self._sizes else 1
            self._sizes[one.kind] = (kind, max(before, one.size or 1))

    def collate(
        self, values: Sequence[Any], task: Tensor, example: Tensor | None, length: int
    ) -> dict[str, Tensor]:
        """From targets that are given.

        Args:
            values: each example's target, E of them.
            task: the task id of each example, [E].
            example: the example of each row, [R]; None: each row is its own. Example E, if there are rows of
                it, stands for nothing.
            length: of the rows, L.
        """
        ids = task.tolist()
        own = [self._tasks[t] for t in ids]
        for number, (value, t, one) in enumerate(zip(values, ids, own, strict=True)):
            try:
                self._kind_of[t].check(value, one.size or 0)
            except ValueError as wrong:
                raise bad_label(number, one, value, wrong) from None
        rows = list(range(len(own))) if example is None else example.tolist()
        idle = max(max(rows, default=-1) + 1 - len(own), 0)
        scaled = [one.target(value) for value, one in zip(values, own, strict=True)] + [None] * idle
        found = {}
        for name, (kind, size) in self._sizes.items():
            mine = [one.kind == name for one in own] + [False] * idle
            found[name] = kind.collate(scaled, mine, Places(rows, length, size)).to(task.device)
        return found

    def gather(self, chosen: Picked, rows: Gathered, task: Ints) -> dict[str, Tensor]:
        """From tokenized splits, whose targets are found once and then only gathered.

        Args:
            chosen: the batch's examples, by split and task.
            rows: their rows.
            task: the task id of each example, [E].
        """
        owners = [int(task[share.examples[0]]) for share in chosen.shares]
        found = {}
        for name, (kind, size) in self._sizes.items():
            shape: tuple[int, ...] = (rows.total, *kind.target_shape(size))
            if kind.targets_by == "row":
                shape = (len(rows.example), *kind.target_shape(size))
            elif kind.targets_by == "token":
                shape = rows.real.shape
            values = np.full(shape, kind.stand_in, kind.target_type)
            for share, places, t in zip(chosen.shares, rows.places, owners, strict=True):
                one = self._tasks[t]
                if one.kind != name:
                    continue
                table = target_table(share.tokens, self._kind_of[t], one)
                table.find(share)
                if kind.targets_by == "token":
                    given = table.values.take(places, mode="clip")
                    values[share.at] = np.where(rows.real[share.at], given, kind.stand_in)
                elif kind.targets_by == "row":
                    values[share.at] = table.values[share.rows]
                elif values.ndim == 2:  # a task of a smaller size has fewer columns
                    given = table.values[share.which]
                    values[share.examples, : given.shape[1]] = given
                else:
                    values[share.examples] = table.values[share.which]
            found[name] = torch.from_numpy(values)
        return found


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
