"""Rows of tokens → the tensors of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from weft.data.tokens import Tokens
from weft.errors import WeftError

if TYPE_CHECKING:
    from torch import Tensor


def collate(items: Sequence[tuple[Tokens, int]], pad_id: int, length: int | None = None) -> dict[str, Tensor]:
    """Pad the rows of some examples on the right.

    Args:
        items: (tokens, example) of each of E examples, from any mix of splits and tasks.
        pad_id: the tokenizer's pad_token_id.
        length: L; by default the length of the longest row.

    Returns:
        `input_ids` and `attention_mask`, [R, L] of int64; `token_type_ids`, the same, if any of the items has
        types (a row of tokens without types has type 0); `marks`, the same, if any has marks; and `example`,
        the example of each row, [R], if any example has not exactly one.
    """
    import torch  # here: the package imports this module, and must not import torch

    if not items:
        raise WeftError("a batch needs at least one row; found none")
    which = [(tokens, row) for tokens, i in items for row in tokens.rows_of(i)]
    rows = [tokens.ids(r) for tokens, r in which]
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    longest = int(lengths.max())
    if length is None:
        length = longest
    elif longest > length:
        raise WeftError(
            f"row {int(lengths.argmax())} of the batch has {longest} tokens and length is {length}; tokenise "
            f"with max_length {length}, or raise length"
        )
    # [R, L], True at tokens; in row-major order they are the rows one after another
    real = np.arange(length) < lengths[:, None]
    ids = np.full(real.shape, pad_id, np.int64)
    ids[real] = np.concatenate(rows)
    batch = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(real.astype(np.int64))}
    for name, there in (("token_type_ids", "has_types"), ("marks", "has_marks")):
        if any(getattr(tokens, there) for tokens, _ in items):
            values = np.zeros(real.shape, np.int64)
            for row, (tokens, r) in enumerate(which):
                found = tokens.types(r) if name == "token_type_ids" else tokens.marks(r)
                if found is not None:
                    values[row, : len(found)] = found
            batch[name] = torch.from_numpy(values)
    if len(rows) != len(items):
        counts = [len(tokens.rows_of(i)) for tokens, i in items]
        batch["example"] = torch.from_numpy(np.repeat(np.arange(len(items)), counts))
    return batch
