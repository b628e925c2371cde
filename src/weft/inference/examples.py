"""Examples of any tasks as columns of numbers, from which batches are gathered without loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.data.batching.collate import Picked, picked_by_split

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens

Ints = NDArray[np.int64]
Listed = Sequence[tuple[int, "Tokens", int]]
"""Tuples of task id, tokenized split and index in the split."""


class Examples:
    """n examples of one or more tokenized splits.

    Args:
        splits: the tokenized splits.
        task: the task id of each example, [n].
        split: the number of each example's split, [n].
        index: the index of each example in its split, [n].

    Attributes:
        lengths: the length of each example's longest row, [n].
        counts: the number of rows of each example, [n].
    """

    def __init__(self, splits: Sequence[Tokens], task: Ints, split: Ints, index: Ints) -> None:
        self.splits, self.task, self.split, self.index = splits, task, split, index
        self.lengths, self.counts = np.empty(len(task), np.int64), np.empty(len(task), np.int64)
        for number, tokens in enumerate(splits):
            members = np.flatnonzero(split == number)
            self.lengths[members] = tokens.lengths[index[members]]
            self.counts[members] = tokens.row_counts[index[members]]

    @classmethod
    def of(cls, listed: Listed) -> Examples:
        """Make `Examples` of a list of tuples."""
        splits: dict[int, tuple[int, Tokens]] = {}
        split = [splits.setdefault(id(tokens), (len(splits), tokens))[0] for _, tokens, _ in listed]
        columns = [task for task, _, _ in listed], split, [index for _, _, index in listed]
        return cls([tokens for _, tokens in splits.values()], *(np.array(x, np.int64) for x in columns))

    @classmethod
    def of_sets(cls, sets: Iterable[tuple[int, Tokens, Sequence[int]]]) -> Examples:
        """Make `Examples` of a task id, a tokenized split and the indices of its examples, set after set."""
        listed = list(sets)
        counts = [len(which) for _, _, which in listed]
        task = np.repeat(np.array([task for task, _, _ in listed], np.int64), counts)
        split = np.repeat(np.arange(len(listed)), counts)
        index = np.fromiter((i for _, _, which in listed for i in which), np.int64, len(task))
        return cls([tokens for _, tokens, _ in listed], task, split, index)

    def __len__(self) -> int:
        return len(self.task)

    def of_each_task(self, alike: Ints | None = None) -> Iterator[tuple[int, Ints]]:
        """Yield each task's id and the numbers of its examples, ascending.

        Args:
            alike: for each task the id of the task whose examples its own join, [T]; None: its own id.
        """
        task = self.task if alike is None else alike[self.task]
        order = np.argsort(task, kind="stable")
        ids, firsts = np.unique(task[order], return_index=True)
        # `split` returns one part even if there is nothing
        parts = np.split(order, firsts[1:]) if len(ids) else []
        return zip(ids.tolist(), parts, strict=True)

    def some(self, chosen: Ints) -> Examples:
        """Return the examples with these numbers, in this order."""
        return Examples(self.splits, self.task[chosen], self.split[chosen], self.index[chosen])

    def picked(self, chosen: Ints) -> Picked:
        """Pick some of the examples for a batch."""
        split, index = self.split[chosen], self.index[chosen]
        shares = []
        for number in np.unique(split).tolist():
            at = np.flatnonzero(split == number)
            shares.append((self.splits[number], at, index[at]))
        return picked_by_split(shares, len(chosen))
