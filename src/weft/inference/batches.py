"""Cutting many examples into batches of like length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from weft.inference.examples import Examples

TOKENS = 16384
"""Token places of a batch on a GPU when nothing is trained: enough to keep it at work, and little memory."""


class Cut(NamedTuple):
    """A batch that is to be made.

    Attributes:
        chosen: which of the examples it has.
        length: what its rows are padded to; None: its longest row.
        rows: what their number is padded to; None: as many as there are.
    """

    chosen: Sequence[int] | NDArray[np.int64]
    length: int | None = None
    rows: int | None = None


def by_rows(examples: Examples, most: int) -> list[Cut]:
    """The examples in the order of their lengths, so many that a batch has `most` rows, or one example."""
    lengths, counts = examples.lengths, examples.counts
    found: list[Cut] = []
    chosen: list[int] = []
    rows = 0
    for number, own in _in_order(lengths, counts):
        if chosen and rows + own > most:
            found.append(Cut(chosen))
            chosen, rows = [], 0
        chosen.append(number)
        rows += own
    return [*found, Cut(chosen)] if chosen else found


def by_tokens(examples: Examples, limit: int | None, budget: int = TOKENS) -> list[Cut]:
    """The examples in the order of their lengths, so many that a batch has `budget` token places at the most.

    Rows are padded to a multiple of 8, so that products have the shapes a GPU is quick at.

    Args:
        examples: those to cut.
        limit: the longest row that the model takes.
        budget: the token places of a batch, unless one example has more.
    """
    lengths, counts = examples.lengths, examples.counts
    each = -(-lengths // 8) * 8 if limit is None else np.minimum(-(-lengths // 8) * 8, limit)
    found: list[Cut] = []
    chosen: list[int] = []
    rows = before = 0
    for number, own in _in_order(lengths, counts):
        length = int(each[number])
        if chosen and rows + own > max(budget // length, 1):
            found.append(Cut(chosen, before))
            chosen, rows = [], 0
        chosen.append(number)
        rows, before = rows + own, length
    return [*found, Cut(chosen, before)] if chosen else found


def _in_order(lengths: NDArray[np.int64], counts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    order = np.argsort(lengths, kind="stable")
    return zip(order.tolist(), counts[order].tolist(), strict=True)
