"""The task of each draw, and that task's number of earlier draws, for any step and without saved state."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import numpy as np

from weft.sampling.plan.choice import Choice, Segment
from weft.utils.counter_rng import Ints, draw_key

BLOCK = 1024
"""The number of steps between two entries of the table of counts."""


class Turns:
    """The draws of a plan: step k makes the draws k·w, …, k·w + w − 1.

    Task i's *position* at a draw is its number of earlier draws. A table, which grows on demand, holds each
    task's number of draws before every 1,024th step; from there on draws are counted one by one.

    Args:
        segments: how the steps choose; the last one continues past the end.
        tasks: the number of tasks T.
        width: the number of draws per step, w: 1 with one task per batch, the batch size in mixed batches.
        seed: the random seed of the draws.
    """

    def __init__(self, segments: Sequence[Segment], tasks: int, width: int, seed: int) -> None:
        self._segments = segments
        self._firsts = [segment.first for segment in segments]
        self._width = width
        self._key = draw_key(seed, "task")
        self._table = [np.zeros(tasks, np.int64)]  # [block][T]
        self._block: tuple[int, Ints, Ints] | None = None  # the last block: its number, tasks, positions

    def before(self, step: int) -> Ints:
        """Return the number of draws of each task before `step`, [T]."""
        block, rest = divmod(step, BLOCK)
        while len(self._table) <= block:
            done = len(self._table) * BLOCK
            self._table.append(self._table[-1] + self._count(done - BLOCK, done))
        return self._table[block] + self._count(step - rest, step)

    def between(self, first: int, stop: int) -> tuple[Ints, Ints]:
        """Return the task and the position of every draw of the steps first, …, stop − 1, within one block.

        Returns:
            Task ids and positions, each [(stop − first)·w].
        """
        number, first = divmod(first, BLOCK)
        stop -= number * BLOCK
        assert first < stop <= BLOCK
        if self._block is None or self._block[0] != number:
            self._block = (number, *self._draw(number))
        _, task, position = self._block
        draws = slice(first * self._width, stop * self._width)
        return task[draws], position[draws]

    def _draw(self, block: int) -> tuple[Ints, Ints]:
        """The tasks and positions of a whole block, each [1024·w]."""
        first = block * BLOCK
        task = np.concatenate([c.tasks(self._key, a, b) for c, a, b in self._pieces(first, first + BLOCK)])
        # sorted by task, the draws form runs; a draw's index in its run is its rank within the block
        by_task = np.argsort(task, kind="stable")
        runs = np.bincount(task)
        rank = np.empty_like(task)
        rank[by_task] = np.arange(len(task)) - np.repeat(np.cumsum(runs) - runs, runs)
        return task, self.before(first)[task] + rank

    def _count(self, first: int, stop: int) -> Ints:
        """The number of draws of each task in the steps first, …, stop − 1, [T]."""
        counts = np.zeros_like(self._table[0])
        for choice, a, b in self._pieces(first, stop):
            counts += choice.counts(self._key, a, b)
        return counts

    def _pieces(self, first: int, stop: int) -> Iterator[tuple[Choice, int, int]]:
        """The segments within the steps first, …, stop − 1, as (choice, first draw, stop draw)."""
        at = bisect_right(self._firsts, first) - 1
        while first < stop:
            end = min(stop, self._segments[at].stop) if at + 1 < len(self._segments) else stop
            yield self._segments[at].choice, first * self._width, end * self._width
            first, at = end, at + 1
