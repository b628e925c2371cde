"""Running a model over many rows of any tasks: sorted by length, mixed, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from weft.data.collate import collate

if TYPE_CHECKING:
    from weft.data.tokens import Tokens
    from weft.model import Model

ROWS = 64
"""Rows of a batch when nothing is trained."""


@torch.no_grad()
def answers(model: Model, rows: Sequence[tuple[int, Tokens, int]], batch_size: int = ROWS) -> list[Tensor]:
    """The logits of each row, in the rows' order, on the CPU in float32.

    Rows are batched by length, so that little is padded, whatever their tasks. The same rows give the same
    batches, and so the same numbers to the last bit.

    Args:
        model: run in eval mode; its mode is put back.
        rows: (task id, its tokenised texts, which of them).
        batch_size: rows a batch.
    """
    device = next(model.parameters()).device
    lengths = np.array([tokens.lengths[i] for _, tokens, i in rows])
    order = np.argsort(lengths, kind="stable").tolist()
    found: list[Tensor | None] = [None] * len(rows)
    training = model.training
    model.eval()
    try:
        for first in range(0, len(order), batch_size):
            chosen = order[first : first + batch_size]
            inputs = collate([rows[r][1:] for r in chosen], model.pad_id)
            task = torch.tensor([rows[r][0] for r in chosen])
            output = model(**{k: v.to(device) for k, v in inputs.items()}, task=task)
            for row, logits in zip(chosen, output.logits, strict=True):
                found[row] = logits.float().cpu()
    finally:
        model.train(training)
    return [logits for logits in found if logits is not None]
