"""The ladder of shapes that inference on a GPU pads its batches to.

A CUDA graph serves one shape, rows × length. With a few lengths and a few numbers of rows, a handful of
graphs serves every batch, and little is padded: examples are sorted by length, longest first, and each batch
is filled before the next one begins, so that only the last batch of a call has rows that carry no answer.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from weft.inference.batches import TOKENS, Cut

if TYPE_CHECKING:
    from weft.inference.examples import Examples

ROWS = (1, 4, 16, 32, 64, 128, 256, 512, 1024)
"""The numbers of rows of a batch that is not full. A pass over one row of 16 tokens takes as long as one over
four: neither fills a GPU."""

STEPS = ((16, 16), (64, 8), (128, 16), (256, 32), (512, 64))
"""Up to a length of the first number, lengths are multiples of the second; above all of them, of 128."""

FEW = 32
"""Examples of a call up to which lengths are powers of two: so few rows do not fill a GPU, padded or not, and
of fewer shapes each is captured sooner."""


class Ladder:
    """The padded lengths and numbers of rows.

    Example:
        >>> ladder = Ladder(limit=512)
        >>> ladder.length(37), ladder.full(40), ladder.rows(3, 40), ladder.rows(300, 40)
        (40, 408, 4, 408)

    Args:
        limit: the longest row that the model takes; None: any.
        budget: the token places of a full batch, unless one row has more.
        most: the rows of a full batch, if that is less.
        coarse: whether lengths are powers of two, for calls of few rows (`FEW`).
    """

    def __init__(
        self,
        limit: int | None = None,
        budget: int = TOKENS,
        most: int | None = None,
        coarse: bool = False,
    ) -> None:
        self.limit, self.budget, self.most, self.coarse = limit, budget, most, coarse

    def length(self, tokens: int) -> int:
        """The padded length of a row of so many tokens."""
        multiple = next((step for most, step in STEPS if tokens <= most), 128)
        padded = -(-tokens // multiple) * multiple
        if self.coarse:
            padded = max(16, 1 << (tokens - 1).bit_length())
        return padded if self.limit is None else max(tokens, min(padded, self.limit))

    def lengths(self, longest: int) -> list[int]:
        """All padded lengths of rows of up to `longest` tokens, ascending."""
        return sorted({self.length(tokens) for tokens in range(1, longest + 1)})

    def full(self, length: int) -> int:
        """The rows of a full batch of this padded length: a multiple of 8 where the budget allows it."""
        most = max(self.budget // length, 1)
        most = most // 8 * 8 if most >= 8 else most
        return most if self.most is None else min(most, self.most)

    def rows(self, count: int, length: int, many: bool = False) -> int:
        """What `count` rows of this padded length are padded to.

        Args:
            count: the rows.
            length: the padded length.
            many: whether there may be more rows than a full batch has; else more stay as they are.
        """
        above = -(-count // ROWS[-1]) * ROWS[-1]
        padded = ROWS[bisect_left(ROWS, count)] if count <= ROWS[-1] else above
        return padded if many else max(count, min(padded, self.full(length)))


def by_ladder(examples: Examples, ladder: Ladder, spare: bool = False) -> list[Cut]:
    """Cut examples into batches of the ladder's shapes, the longest examples first.

    Args:
        examples: those to cut.
        ladder: the shapes.
        spare: whether each batch has at least one row more than its examples: where examples may have several
            rows, the rows that carry no answer belong to an example of their own.
    """
    order = np.argsort(-examples.lengths, kind="stable")
    lengths, ends = examples.lengths[order], np.cumsum(examples.counts[order])
    found: list[Cut] = []
    first = before = 0
    while first < len(order):
        length = ladder.length(int(lengths[first]))
        # as many as fit beside the spare row, but one at the least
        stop = int(np.searchsorted(ends, before + ladder.full(length) - spare, side="right"))
        stop = max(stop, first + 1)
        rows = int(ends[stop - 1]) - before
        found.append(Cut(order[first:stop], length, ladder.rows(rows + spare, length)))
        first, before = stop, int(ends[stop - 1])
    return found
