"""Long examples in pieces, so that the memory of a pass does not grow with the length of a document.

An example has as many rows as it has windows or choices. Where each row or token has logits of its own, the
rows need not run together: a piece is some consecutive rows of one example, and is batched like an example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.inference.batches import POSITIONS
from weft.inference.examples import Examples
from weft.inference.ladder import Ladder

if TYPE_CHECKING:
    from weft.data.tokens.tokens import Tokens
    from weft.model.model import Model

Ints = NDArray[np.int64]


class Pieces(NamedTuple):
    """n examples in p pieces.

    Attributes:
        examples: the pieces as examples, those of one example side by side, [p].
        starts: the number of the first piece of each example, and p, [n + 1].
    """

    examples: Examples
    starts: Ints


def rows_of_pass(model: Model, longest: int, batch_size: int | None) -> int:
    """The most rows of one example in a pass; as many as a full batch has.

    Args:
        model: the model.
        longest: the tokens of the longest row.
        batch_size: the requested number of rows of a batch, if any.
    """
    if next(model.parameters()).device.type != "cuda":
        return batch_size or max(POSITIONS // longest, 1)
    # a captured batch has at least one padding row
    ladder = Ladder(model.longest, most=batch_size, coarse=True)
    return max(ladder.full(ladder.length(longest)) - 1, 1)


def in_pieces(model: Model, examples: Examples, batch_size: int | None = None) -> Pieces | None:
    """Cut the examples that have more rows than a full batch; None if there are none.

    An example with one vector of logits, such as a pair of texts encoded separately, is never cut.

    Args:
        model: the model.
        examples: the n examples.
        batch_size: as in `rows_of_pass`.
    """
    if not len(examples):
        return None
    most = rows_of_pass(model, int(examples.lengths.max()), batch_size)
    if int(examples.counts.max()) <= most:
        return None
    whole = np.array([model.answers_by[task.head] == "example" for task in model.tasks])
    splits: list[Tokens] = list(examples.splits)
    first = examples.index.copy()
    counts = np.ones(len(examples), np.int64)
    for number, tokens in enumerate(examples.splits):
        members = np.flatnonzero(examples.split == number)
        if not len(members) or whole[examples.task[members]].any():
            continue
        splits[number], starts = tokens.in_pieces(most)
        index = examples.index[members]
        first[members], counts[members] = starts[index], starts[index + 1] - starts[index]
    starts = np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], counts)
    pieces = Examples(
        splits,
        np.repeat(examples.task, counts),
        np.repeat(examples.split, counts),
        np.repeat(first, counts) + within,
    )
    return Pieces(pieces, starts)
