"""Examples of any tasks as columns of numbers, so that batches are cut and gathered without loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.data.batching.collate import Picked, picked_by_split

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens

Ints = NDArray[np.int64]
Listed = Sequence[tuple[int, "Tokens", int]]
"""(task id, its tokenized examples, which of them)."""


class Examples:
    """n examples.

    Args:
        splits: the tokenized splits that they are of, S of them.
        task: the task id of each example, [n].
        split: which of the splits each is of, [n].
        index: which of its split's examples each is, [n].

    Attributes:
        lengths: the longest row of each, [n].
        counts: how many rows each has, [n].
    """

    def __init__(self, splits: Sequence[Tokens], task: Ints, split: Ints, index: Ints) -> None:
        self.splits, self.task, self.split, self.index = splits, task, split, index
        self.lengths, self.counts = np.empty(len(task), np.int64), np.empty(len(task), np.int64)
        for number, tokens in enumerate(splits):
            here = np.flatnonzero(split == number)
            self.lengths[here] = tokens.lengths[index[here]]
            self.counts[here] = tokens.row_counts[index[here]]

    @classmethod
    def of(cls, listed: Listed) -> Examples:
        """The examples of a list."""
        splits: dict[int, tuple[int, Tokens]] = {}
        split = [splits.setdefault(id(tokens), (len(splits), tokens))[0] for _, tokens, _ in listed]
        columns = [task for task, _, _ in listed], split, [index for _, _, index in listed]
        return cls([tokens for _, tokens in splits.values()], *(np.array(x, np.int64) for x in columns))

    @classmethod
    def by_task(cls, tokens: Mapping[int, Tokens], task: Sequence[int], index: Sequence[int]) -> Examples:
        """Examples of splits that each have one task.

        Args:
            tokens: the split of each task, by the task's id.
            task: the task id of each example, [n].
            index: which of its split's examples each is, [n].
        """
        number = np.zeros(max(tokens, default=0) + 1, np.int64)
        number[list(tokens)] = np.arange(len(tokens))
        ids = np.array(task, np.int64)
        return cls(list(tokens.values()), ids, number[ids], np.array(index, np.int64))

    def __len__(self) -> int:
        return len(self.task)

    def picked(self, chosen: Ints) -> Picked:
        """Some of the examples as those of a batch."""
        split, index = self.split[chosen], self.index[chosen]
        shares = []
        for number in np.unique(split).tolist():
            at = np.flatnonzero(split == number)
            shares.append((self.splits[number], at, index[at]))
        return picked_by_split(shares, len(chosen))
