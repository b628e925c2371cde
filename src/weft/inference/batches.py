"""Cutting many examples into length-bucketed batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from weft.inference.examples import Examples

ROWS = 64
"""Texts of a batch on a CPU where each is answered for many tasks."""
POSITIONS = 4096
"""Token positions of an inference batch on a CPU: larger ones are no faster per position."""
OVERHEAD = 64.0
"""What a pass of PyTorch on a CPU costs besides its rows, in token positions; for MiniLM about a hundred,
for larger encoders less."""
TOKENS = 16384
"""Token positions of an inference batch on a GPU: enough to keep it busy, with little memory."""

LONG = 512
"""Rows of more tokens run eagerly on a GPU if they fill a batch. One such batch keeps a GPU busy for longer
than the host takes to launch its kernels, so that a CUDA graph saves nothing. And a graph always has a mask,
with which torch's attention takes a slower kernel; an eager pass over rows of one length has none."""


class Cut(NamedTuple):
    """The description of one batch.

    Attributes:
        chosen: the numbers of its examples.
        length: the length that its rows are padded to; None: that of its longest row.
        rows: the number of rows that the batch is padded to; None: no padding rows.
    """

    chosen: Sequence[int] | NDArray[np.int64]
    length: int | None = None
    rows: int | None = None


def by_rows(examples: Examples, most: int) -> list[Cut]:
    """Cut the examples, sorted by length, into batches of at most `most` rows, or of one example."""
    lengths, counts = examples.lengths, examples.counts
    cuts: list[Cut] = []
    chosen: list[int] = []
    rows = 0
    for number, count in _in_order(lengths, counts):
        if chosen and rows + count > most:
            cuts.append(Cut(chosen))
            chosen, rows = [], 0
        chosen.append(number)
        rows += count
    return [*cuts, Cut(chosen)] if chosen else cuts


def by_tokens(examples: Examples, limit: int | None, budget: int = TOKENS) -> list[Cut]:
    """Cut the examples, sorted by length, into batches of at most `budget` token positions.

    Rows are padded to a multiple of 8, because GPUs multiply matrices of such shapes faster.

    Args:
        examples: the examples to cut.
        limit: the longest row that the model takes.
        budget: the token positions of a batch, unless one example has more.
    """
    lengths, counts = examples.lengths, examples.counts
    padded = -(-lengths // 8) * 8 if limit is None else np.minimum(-(-lengths // 8) * 8, limit)
    cuts: list[Cut] = []
    chosen: list[int] = []
    rows = before = 0
    for number, count in _in_order(lengths, counts):
        length = int(padded[number])
        if chosen and rows + count > max(budget // length, 1):
            cuts.append(Cut(chosen, before))
            chosen, rows = [], 0
        chosen.append(number)
        rows, before = rows + count, length
    return [*cuts, Cut(chosen, before)] if chosen else cuts


def long_rows(examples: Examples, budget: int = TOKENS) -> NDArray[np.bool_]:
    """Which examples are better run eagerly on a GPU than by a CUDA graph, [n]; see `LONG`.

    Args:
        examples: the n examples.
        budget: the token positions of a full batch.
    """
    are_long = examples.lengths > LONG
    positions = int((examples.lengths * examples.counts)[are_long].sum())
    return are_long if positions >= budget else np.zeros_like(are_long)


def _in_order(lengths: NDArray[np.int64], counts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    order = np.argsort(lengths, kind="stable")
    return zip(order.tolist(), counts[order].tolist(), strict=True)


def by_cost(examples: Examples, overhead: float, budget: int) -> list[Cut]:
    """Cut the examples, sorted by length, into the batches that cost least together.

    A pass over r rows of L tokens costs overhead + r·L token positions. One batch of a short and a long row
    is mostly padding, and two batches pay the overhead twice: which is better depends on the lengths. With
    c(i, j) the cost of one batch of the examples i to j − 1, the least cost of the first j examples is

        C(j) = min over i of C(i) + c(i, j)

    Args:
        examples: the n examples.
        overhead: what a pass costs besides its rows, in token positions.
        budget: the most token positions of a batch, unless one example has more.
    """
    order = np.argsort(examples.lengths, kind="stable")
    lengths = examples.lengths[order]
    ends = np.concatenate([[0], np.cumsum(examples.counts[order])])
    least = np.zeros(len(order) + 1)
    first = np.zeros(len(order) + 1, np.int64)  # where the last batch of the first j examples begins
    for j in range(1, len(order) + 1):
        length = int(lengths[j - 1])
        # the earliest example that fits into a batch with this one
        i = min(int(np.searchsorted(ends, ends[j] - budget // length)), j - 1)
        costs = least[i:j] + (ends[j] - ends[i:j]) * length
        at = int(np.argmin(costs))
        least[j], first[j] = costs[at] + overhead, i + at
    cuts: list[Cut] = []
    j = len(order)
    while j:
        cuts.append(Cut(order[first[j] : j]))
        j = int(first[j])
    return cuts[::-1]
