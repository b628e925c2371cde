"""The fixed shapes that inference on a GPU pads its batches to.

A CUDA graph serves one shape, rows × length. With few lengths and few numbers of rows, a handful of graphs
serves every batch. There is little padding: examples are sorted by length, longest first. While shapes are
captured when they are needed, each batch is filled before the next one begins, so that only the last batch of
a call has padding rows (`by_ladder`). Once all shapes are captured, calls of few rows are cut into the
batches that cost least together (`cheapest`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from weft.inference.batches import TOKENS, Cut, by_rows, by_tokens, long_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weft.inference.examples import Examples

ROWS = (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""The numbers of rows of a batch that is not full. There is no step between 1 and 4, because a pass over one
row of 16 tokens takes as long as one over four: neither fills a GPU."""

STEPS = ((16, 16), (64, 8), (128, 16), (256, 32), (512, 64))
"""Pairs (up to this length, lengths are multiples of this number); above the last, of 128."""

FEW = 32
"""In calls of up to this many examples, lengths are powers of two. So few rows do not fill a GPU, padded or
not, and with fewer shapes each is captured sooner."""

CHEAPEST = 512
"""Calls of up to this many rows are cut where it costs least; a quarter of it if examples have several rows.
In larger calls the batches are full, and the search takes as long as it saves."""


class Ladder:
    """The padded lengths and numbers of rows.

    Example:
        >>> ladder = Ladder(limit=512)
        >>> ladder.length(37), ladder.full(40), ladder.rows(3, 40), ladder.rows(300, 40)
        (40, 408, 4, 408)

    Args:
        limit: the longest row that the model takes; None: no limit.
        budget: the token positions of a full batch, unless one row has more.
        most: the maximum number of rows of a full batch.
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
        """The padded length of a row of `tokens` tokens."""
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
        """The number of rows that `count` rows of this padded length are padded to.

        Args:
            count: the number of rows.
            length: the padded length.
            many: whether to pad beyond a full batch too; otherwise more rows than that are not padded.
        """
        above = -(-count // ROWS[-1]) * ROWS[-1]
        padded = ROWS[bisect_left(ROWS, count)] if count <= ROWS[-1] else above
        return padded if many else max(count, min(padded, self.full(length)))


def by_ladder(examples: Examples, ladder: Ladder, spare: bool = False) -> list[Cut]:
    """Cut examples into batches of the ladder's shapes, the longest examples first.

    Args:
        examples: the examples to cut.
        ladder: the shapes.
        spare: whether each batch has at least one padding row. If examples may have several rows, padding
            rows belong to a separate, empty example.
    """
    order = np.argsort(-examples.lengths, kind="stable")
    lengths, ends = examples.lengths[order], np.cumsum(examples.counts[order])
    cuts: list[Cut] = []
    first = before = 0
    while first < len(order):
        length = ladder.length(int(lengths[first]))
        # as many as fit besides the spare row, but at least one
        stop = int(np.searchsorted(ends, before + ladder.full(length) - spare, side="right"))
        stop = max(stop, first + 1)
        rows = int(ends[stop - 1]) - before
        cuts.append(Cut(order[first:stop], length, ladder.rows(rows + spare, length)))
        first, before = stop, int(ends[stop - 1])
    return cuts


def cheapest(examples: Examples, ladder: Ladder, overhead: float, spare: bool = False) -> list[Cut]:
    """Cut examples into batches of the ladder's shapes that cost least together, the longest examples first.

    A pass over r rows of L tokens costs overhead + r·L token positions, padding included. With c(i, r) the
    cost of a batch that begins with example i, has r rows and ends before example e(i, r), the least cost of
    the examples from i on is

        C(i) = min over r of c(i, r) + C(e(i, r))

    Batches of one row are considered in calls of few examples (`FEW`) only: with them, a batch may begin at
    any example, and not only at every fourth.

    Args:
        examples: the n examples.
        ladder: the shapes.
        overhead: what a pass costs besides its rows, in token positions.
        spare: as in `by_ladder`.
    """
    order = np.argsort(-examples.lengths, kind="stable")
    lengths = [ladder.length(length) for length in examples.lengths[order].tolist()]
    ends = [0, *np.cumsum(examples.counts[order]).tolist()]  # ends[i]: the rows of the first i examples
    least: dict[int, tuple[float, int]] = {len(order): (0.0, 0)}  # by i: C(i), and e(i, r) of the best r
    pending = [0]
    while pending:
        i = pending[-1]
        choices = {} if i in least else _batches_from(i, ends, ladder, lengths[i], spare)
        if missing := [stop for stop in choices if stop not in least]:
            pending += missing
            continue
        pending.pop()
        if choices:
            least[i] = min((overhead + rows * lengths[i] + least[e][0], e) for e, rows in choices.items())
    cuts: list[Cut] = []
    i = 0
    while i < len(order):
        stop = least[i][1]
        cuts.append(Cut(order[i:stop], lengths[i], ladder.rows(ends[stop] - ends[i] + spare, lengths[i])))
        i = stop
    return cuts


def _batches_from(i: int, ends: Sequence[int], ladder: Ladder, length: int, spare: bool) -> dict[int, int]:
    """The batches that may begin with example i: where each ends, and its rows, padding included."""
    full = ladder.full(length)
    choices: dict[int, int] = {}
    steps = ROWS if len(ends) <= FEW + 1 else ROWS[1:]
    for step in (*(rows for rows in steps if rows < full), full):
        stop = max(bisect_right(ends, ends[i] + step - spare) - 1, i + 1)
        if stop not in choices:
            choices[stop] = ladder.rows(ends[stop] - ends[i] + spare, length)
        if stop == len(ends) - 1:
            break
    return choices


def in_two_ways(
    examples: Examples,
    limit: int | None,
    most: int | None = None,
    spare: bool = False,
    all_captured: bool = False,
    overhead: float | None = None,
) -> tuple[list[Cut], list[Cut]]:
    """Cut examples into batches that run eagerly, those of long rows, and batches that may be captured.

    Args:
        examples: the examples to cut.
        limit: the longest row that the model takes; None: no limit.
        most: the maximum number of rows of a batch.
        spare: as in `by_ladder`, for batches that may be captured.
        all_captured: whether long rows may be captured too.
        overhead: as in `to_capture`.
    """
    are_long = long_rows(examples)
    if all_captured or not are_long.any():
        return [], to_capture(examples, limit, most=most, spare=spare, overhead=overhead)
    long, short = np.flatnonzero(are_long), np.flatnonzero(~are_long)
    long_examples = examples.some(long)
    eager = by_tokens(long_examples, limit) if most is None else by_rows(long_examples, most)
    captured = to_capture(examples.some(short), limit, most=most, spare=spare, overhead=overhead)
    return _renumbered(eager, long), _renumbered(captured, short)


def to_capture(
    examples: Examples,
    limit: int | None,
    budget: int = TOKENS,
    most: int | None = None,
    spare: bool = False,
    overhead: float | None = None,
) -> list[Cut]:
    """Cut examples into batches that may be captured.

    Few examples are one batch of a coarse shape as long as captures are made when they are needed: each
    shape costs a capture. Once all shapes are captured, and full batches would have much padding, the
    cheapest batches are chosen.

    Args:
        examples: the examples to cut.
        limit: the longest row that the model takes; None: no limit.
        budget: the token positions of a full batch.
        most: the maximum number of rows of a batch.
        spare: as in `by_ladder`.
        overhead: what a pass costs besides its rows, in token positions, if all shapes of the ladder are
            captured by now; else None.
    """
    if overhead is None:
        return by_ladder(examples, Ladder(limit, budget, most, coarse=len(examples) <= FEW), spare)
    ladder = Ladder(limit, budget, most)
    full = by_ladder(examples, ladder, spare)
    rows = int(examples.counts.sum())
    padding = sum(int(cut.rows or 0) * int(cut.length or 0) for cut in full)
    padding -= int((examples.lengths * examples.counts).sum())
    # what one more pass could save must be worth a pass
    if padding <= overhead or rows > (CHEAPEST if rows == len(examples) else CHEAPEST // 4):
        return full
    return cheapest(examples, ladder, overhead, spare)


def _renumbered(cuts: Sequence[Cut], numbers: NDArray[np.int64]) -> list[Cut]:
    """Replace numbers among some of the examples by numbers among all."""
    return [cut._replace(chosen=numbers[np.asarray(cut.chosen)]) for cut in cuts]
