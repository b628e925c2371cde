"""The targets of a batch's examples, of any mix of kinds, as tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from weft.model.target_table import bad_label, target_table
from weft.tasks.kinds.collate import Places
from weft.tasks.kinds.kind import Kind
from weft.tasks.task import Task

if TYPE_CHECKING:
    from weft.data.batching.collate import Gathered, Ints, Picked


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
