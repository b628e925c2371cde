"""Running a model over many rows of any tasks: sorted by length, mixed, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.data.collate import collate

if TYPE_CHECKING:
    from weft.data.tokens import Tokens
    from weft.model import Model
    from weft.output import Output

ROWS = 64
"""Rows of a batch when nothing is trained."""


class Batch(NamedTuple):
    """One batch of many rows.

    Attributes:
        rows: which of the rows they are, R numbers.
        mask: 1 where a row has a token, [R, L], on the CPU.
        output: what the model gave for them.
    """

    rows: list[int]
    mask: Tensor
    output: Output


@torch.no_grad()
def outputs(
    model: Model,
    rows: Sequence[tuple[int, Tokens, int]],
    batch_size: int = ROWS,
    layers: bool = False,
) -> Iterator[Batch]:
    """Run the model over the rows, a batch at a time.

    Rows are batched by length, so that little is padded, whatever their tasks. The same rows give the same
    batches, and so the same numbers to the last bit.

    Args:
        model: run in eval mode; its mode is put back.
        rows: (task id, its tokenised texts, which of them).
        batch_size: rows a batch.
        layers: whether to collect `Output.layers`.
    """
    device = next(model.parameters()).device
    lengths = np.array([tokens.lengths[i] for _, tokens, i in rows])
    order = np.argsort(lengths, kind="stable").tolist()
    training = model.training
    model.eval()
    try:
        for first in range(0, len(order), batch_size):
            chosen = order[first : first + batch_size]
            inputs = collate([rows[r][1:] for r in chosen], model.pad_id)
            task = torch.tensor([rows[r][0] for r in chosen])
            output = model(**{k: v.to(device) for k, v in inputs.items()}, task=task, layers=layers)
            yield Batch(chosen, inputs["attention_mask"], output)
    finally:
        model.train(training)


def answers(model: Model, rows: Sequence[tuple[int, Tokens, int]], batch_size: int = ROWS) -> list[Tensor]:
    """The logits of each row, in the rows' order, on the CPU in float32.

    Args:
        model: as in `outputs`.
        rows: as in `outputs`.
        batch_size: as in `outputs`.
    """
    found: list[Tensor | None] = [None] * len(rows)
    for batch in outputs(model, rows, batch_size):
        for row, logits in zip(batch.rows, batch.output.logits, strict=True):
            found[row] = logits.float().cpu()
    return [logits for logits in found if logits is not None]
