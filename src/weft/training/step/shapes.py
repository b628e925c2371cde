"""The shapes that a run's batches are padded to: few, so that each is compiled or captured once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.training.step.buckets import Waste, choose_lengths, choose_rows, padded, waste
from weft.utils.counter_rng import Ints

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.sampling.plan.plan import Candidates, Plan, Step

SAMPLE = 512
"""How many of the plan's steps are looked at."""


class Shape(NamedTuple):
    """What a batch is padded to.

    Attributes:
        length: L.
        rows: R.
        keys: the inputs it has beside ids and mask, whatever its examples have.
    """

    length: int
    rows: int
    keys: tuple[str, ...]


class Shapes:
    """Chooses the lengths and numbers of rows of a run, and finds a batch's own.

    Args:
        train: the tokenized training rows of each task, [T].
        plan: of the run.
        parts: how many parts a step is cut into.
        limit: the longest row that the model takes; None: any.

    Attributes:
        lengths: the padded lengths, ascending.
        waste: the shares of token places that hold no token, of the steps that were looked at.
    """

    def __init__(self, train: Sequence[Tokens], plan: Plan, parts: int = 1, limit: int | None = None) -> None:
        self._train = train
        self._several = any(bool((tokens.row_counts != 1).any()) for tokens in train)
        keys = [("token_type_ids", "has_types"), ("marks", "has_marks")]
        self._keys = tuple(k for k, there in keys if any(getattr(tokens, there) for tokens in train))
        if self._several:
            self._keys += ("example",)
        longest, rows, tokens = self._look(plan, parts)
        # a step that was not looked at may be longer than all that were
        most = max(int(tokens.lengths.max()) for tokens in train)
        self.lengths: tuple[int, ...] = choose_lengths([*longest, most], limit=limit)
        self._rows: tuple[int, ...] = choose_rows(rows) if self._several else ()
        sizes = [
            (padded(n, self.lengths), self._padded_rows(r, r)) for n, r in zip(longest, rows, strict=True)
        ]
        self.waste: Waste = waste(tokens, longest, rows, sizes)

    def of(self, tasks: Ints, index: Ints) -> Shape:
        """The shape of a batch of these examples: the plan's tasks and the examples' numbers, [E]."""
        length, rows = self._size(tasks, index)
        return Shape(padded(length, self.lengths), self._padded_rows(rows, len(tasks)), self._keys)

    def _padded_rows(self, rows: int, examples: int) -> int:
        """R: of examples of one row each, as many; else with room for a row of no example."""
        if not self._several:
            return examples
        for size in self._rows:
            if rows < size:
                return size
        return -(-(rows + 1) // 8) * 8  # more than any step that was looked at; few sizes all the same

    def _size(self, tasks: Ints, index: Ints) -> tuple[int, int]:
        """The longest row of some examples, and how many rows they have."""
        length = rows = 0
        for task in np.unique(tasks).tolist():
            own = index[tasks == task]
            length = max(length, int(self._train[task].lengths[own].max()))
            rows += int(self._train[task].row_counts[own].sum())
        return length, rows

    def _look(self, plan: Plan, parts: int) -> tuple[list[int], list[int], int]:
        """The longest row and the number of rows of the parts of some steps, and the tokens of all."""
        numbers = np.unique(np.linspace(0, plan.steps - 1, min(SAMPLE, plan.steps)).astype(np.int64))
        longest, rows, tokens = [], [], 0
        for number in numbers.tolist():
            step: Step | Candidates = plan.candidates(number) if plan.chooses else plan.step(number)
            count = len(step.task)
            places = np.array_split(np.arange(count), parts)
            if plan.chooses:  # what is chosen is not known; a batch of it is as wide as any other
                some = np.linspace(0, count - 1, min(plan.batch_size, count)).astype(np.int64)
                places += np.array_split(some, parts)
            for part in places:
                task, index = step.task[part], step.index[part]
                if len(part) == 0:
                    continue
                length, own = self._size(task, index)
                longest.append(length)
                rows.append(own)
                tokens += sum(int(self._of_rows(t, index[task == t])) for t in np.unique(task).tolist())
        return longest, rows, tokens

    def _of_rows(self, task: int, index: NDArray[np.int64]) -> int:
        """The tokens of all rows of some examples of a task."""
        tokens = self._train[task]
        if not self._several:
            return int(tokens.lengths[index].sum())
        return sum(int(tokens.row_lengths[tokens.rows_of(int(i))].sum()) for i in index)
