"""The shapes that a run's batches are padded to: only a few, because each is compiled or captured once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.training.step.buckets import LENGTHS, Waste, choose_lengths, choose_rows, padded, waste
from weft.utils.counter_rng import Ints

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.sampling.plan.plan import Candidates, Plan, Step

SAMPLE = 512
"""The number of the plan's steps that the shapes are chosen from."""

TASK_LENGTHS, TASK_ROWS = 6, 3
"""The maximum number of padded lengths, and of padded row counts, if each task has a separate batch."""


class Shape(NamedTuple):
    """The padded shape of a batch.

    Attributes:
        length: L.
        rows: R.
        keys: its inputs besides ids and mask, equal for every batch of the run.
        examples: the number of its examples, filling ones included; None: as many as its rows need.
    """

    length: int
    rows: int
    keys: tuple[str, ...]
    examples: int | None = None


class Shapes:
    """Chooses the padded lengths and row counts of a run, and the shape of each batch.

    Args:
        train: the tokenized training rows of each task, [T].
        plan: the plan of the run.
        accumulate: the number of micro-batches per step.
        limit: the longest row that the model accepts; None: any.
        by_task: whether each task of a step has a separate batch (`train.conflict`); see `of_tasks`.

    Attributes:
        lengths: the padded lengths, ascending.
        waste: the fractions of token positions that are padding, in the sampled steps.
    """

    def __init__(
        self,
        train: Sequence[Tokens],
        plan: Plan,
        accumulate: int = 1,
        limit: int | None = None,
        by_task: bool = False,
    ) -> None:
        self._train, self._by_task = train, by_task
        self._several = any(bool((tokens.row_counts != 1).any()) for tokens in train)
        keys = [("token_type_ids", "has_types"), ("marks", "has_marks")]
        self._keys = tuple(key for key, flag in keys if any(getattr(tokens, flag) for tokens in train))
        if self._several:
            self._keys += ("example",)
        longest, rows, examples, tokens = self._sample(plan, accumulate)
        # a step outside the sample may be longer than all in it
        most = max(int(tokens.lengths.max()) for tokens in train)
        count = TASK_LENGTHS if by_task else LENGTHS
        self.lengths: tuple[int, ...] = choose_lengths([*longest, most], count, limit=limit)
        self._rows: tuple[int, ...] = ()
        if by_task:
            needed = [self._filled(r, e) for r, e in zip(rows, examples, strict=True)]
            # never above the largest of the sample: if all are equal, nothing is padded
            chosen = choose_rows(needed, TASK_ROWS, spare=0)
            self._rows = tuple(sorted({min(size, max(needed)) for size in chosen}))
        elif self._several:
            self._rows = choose_rows(rows)
        sizes = []
        for n, r, e in zip(longest, rows, examples, strict=True):
            room = self._bucket(self._filled(r, e)) if by_task else self._padded_rows(r, e)
            sizes.append((padded(n, self.lengths), room))
        self.waste: Waste = waste(tokens, longest, rows, sizes)

    def of(self, tasks: Ints, index: Ints) -> Shape:
        """The shape of a batch of these examples: the plan's tasks and the examples' numbers, [E]."""
        length, rows = self._size(tasks, index)
        return Shape(padded(length, self.lengths), self._padded_rows(rows, len(tasks)), self._keys)

    def of_tasks(self, batches: Sequence[tuple[Ints, Ints]]) -> Shape:
        """The common shape of several batches, with room for weight-0 examples in each.

        Args:
            batches: the plan's tasks and the examples' numbers of each, [E] both.
        """
        sizes = [(*self._size(tasks, index), len(tasks)) for tasks, index in batches]
        length = padded(max(length for length, _, _ in sizes), self.lengths)
        if not self._several:
            rows = self._bucket(max(rows for _, rows, _ in sizes))
            return Shape(length, rows, self._keys)
        examples = _examples(max(count for _, _, count in sizes))
        rows = self._bucket(max(rows + examples - count for _, rows, count in sizes))
        return Shape(length, rows, self._keys, examples)

    def _padded_rows(self, rows: int, examples: int) -> int:
        """R: if every example has one row, the number of examples; else with room for a row of no example."""
        return self._bucket(rows + 1) if self._several else examples

    def _filled(self, rows: int, examples: int) -> int:
        """The rows of a task's batch with those of filling examples, if examples have several rows."""
        return rows + _examples(examples) - examples if self._several else rows

    def _bucket(self, rows: int) -> int:
        """The smallest of the chosen row counts with room for these."""
        for size in self._rows:
            if rows <= size:
                return size
        return -(-rows // 8) * 8  # more rows than any sampled step; rounded, to have few sizes still

    def _size(self, tasks: Ints, index: Ints) -> tuple[int, int]:
        """The longest row of some examples, and how many rows they have."""
        length = rows = 0
        for task in np.unique(tasks).tolist():
            examples = index[tasks == task]
            length = max(length, int(self._train[task].lengths[examples].max()))
            rows += int(self._train[task].row_counts[examples].sum())
        return length, rows

    def _sample(self, plan: Plan, accumulate: int) -> tuple[list[int], list[int], list[int], int]:
        """The longest row, the rows and the examples of each batch of some steps, and the tokens of all."""
        numbers = np.unique(np.linspace(0, plan.steps - 1, min(SAMPLE, plan.steps)).astype(np.int64))
        longest, rows, examples, tokens = [], [], [], 0
        for number in numbers.tolist():
            step: Step | Candidates = plan.candidates(number) if plan.chooses else plan.step(number)
            count = len(step.task)
            chunks = np.array_split(np.arange(count), accumulate)
            if plan.chooses:  # the choice is not known yet; any batch of the candidates represents it
                some = np.linspace(0, count - 1, min(plan.batch_size, count)).astype(np.int64)
                chunks += np.array_split(some, accumulate)
            if self._by_task:
                chunks = [c[step.task[c] == task] for c in chunks for task in np.unique(step.task[c])]
            for chunk in chunks:
                task, index = step.task[chunk], step.index[chunk]
                if len(chunk) == 0:
                    continue
                length, row_count = self._size(task, index)
                longest.append(length)
                rows.append(row_count)
                examples.append(len(chunk))
                tokens += sum(int(self._tokens(t, index[task == t])) for t in np.unique(task).tolist())
        return longest, rows, examples, tokens

    def _tokens(self, task: int, index: NDArray[np.int64]) -> int:
        """The number of tokens in all rows of some examples of a task."""
        tokens = self._train[task]
        if not self._several:
            return int(tokens.lengths[index].sum())
        return sum(int(tokens.row_lengths[tokens.rows_of(int(i))].sum()) for i in index)


def _examples(count: int) -> int:
    """The number of examples of a padded batch with one more or a few more than these."""
    return -(-(count + 1) // 4) * 4
