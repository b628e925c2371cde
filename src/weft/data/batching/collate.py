"""Collate rows of tokens into the tensors of a batch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.data.tokens.tokens import Tokens
from weft.errors import WeftError

if TYPE_CHECKING:
    from torch import Tensor

Ints = NDArray[np.int64]

CHANNELS = {"token_type_ids": "types", "marks": "marks"}
"""Optional inputs of a batch, and their names in `Tokens`."""


class Share(NamedTuple):
    """The examples of a batch that come from one split.

    Attributes:
        tokens: the split.
        examples: their indices among the batch's examples, [k].
        which: their indices among the split's examples, [k].
        at: the indices of their rows among the batch's rows, [r].
        rows: the indices of their rows among the split's rows, [r].
    """

    tokens: Tokens
    examples: Ints
    which: Ints
    at: Ints
    rows: Ints


class Picked(NamedTuple):
    """The E examples of a batch, grouped by split.

    Attributes:
        shares: the examples of each split.
        example: the example of each row, [R].
        total: E.
    """

    shares: list[Share]
    example: Ints
    total: int


class Gathered(NamedTuple):
    """The rows of a batch.

    Attributes:
        inputs: the arguments of the forward pass, without the tasks.
        real: true at tokens, false at padding, [R, L].
        places: per share, the indices of its rows' tokens among all tokens of the split, [r, L]; arbitrary
            beyond the end of a row.
        example: the example of each row, filling rows included, [R].
        total: the number of examples, filling ones included.
    """

    inputs: dict[str, Tensor]
    real: NDArray[np.bool_]
    places: list[Ints]
    example: Ints
    total: int


def collate(
    items: Sequence[tuple[Tokens, int]],
    pad_id: int,
    length: int | None = None,
    rows: int | None = None,
    keys: Collection[str] | None = None,
) -> dict[str, Tensor]:
    """Pad the rows of some examples on the right.

    Args:
        items: (tokens, index) of each of the E examples, from any mix of splits and tasks.
        pad_id: the tokenizer's pad_token_id.
        length: L; by default the length of the longest row.
        rows: R; by default the number of rows of the examples. Further rows have one token and belong to a
            filling example, number E; in a batch without `example` each is a separate example.
        keys: which of `token_type_ids`, `marks` and `example` the batch has; by default those that its
            examples need.

    Returns:
        `input_ids` and `attention_mask`, [R, L] of int64; `token_type_ids`, [R, L], if any item has types (0
        for items without); `marks`, [R, L], if any item has marks; and `example`, the example of each row,
        [R], if any example does not have exactly one row.
    """
    return gather(picked(items), pad_id, length, rows, keys).inputs


def picked(items: Sequence[tuple[Tokens, int]], task: Ints | None = None) -> Picked:
    """Group the examples of a batch by split or, with the task of each example, [E], by split and task."""
    if not items:
        raise WeftError("a batch needs at least one example; found none")
    count = len(items)
    first = items[0][0]
    every = np.arange(count)
    same_task = task is None or bool((task == task[0]).all())
    if same_task and all(tokens is first for tokens, _ in items):
        groups = [(first, every, np.fromiter((i for _, i in items), np.int64, count))]
    else:
        ids = [0] * count if task is None else task.tolist()
        by_split: dict[tuple[int, int], tuple[Tokens, list[int], list[int]]] = {}
        for position, ((tokens, i), t) in enumerate(zip(items, ids, strict=True)):
            group = by_split.setdefault((id(tokens), t), (tokens, [], []))
            group[1].append(position)
            group[2].append(i)
        groups = [
            (tokens, np.array(a, np.int64), np.array(b, np.int64)) for tokens, a, b in by_split.values()
        ]
    return picked_by_split(groups, count)


def picked_by_split(groups: Sequence[tuple[Tokens, Ints, Ints]], count: int) -> Picked:
    """Return the examples of a batch, with the rows of each split.

    Args:
        groups: per split: the tokens, the indices of its examples in the batch, [k], and their indices in the
            split, [k].
        count: the number of examples of the batch, E.
    """
    every = np.arange(count)
    if all(tokens.one_row_each for tokens, _, _ in groups):
        return Picked([Share(tokens, at, index, at, index) for tokens, at, index in groups], every, count)
    counts = np.empty(count, np.int64)
    for tokens, at, index in groups:
        counts[at] = tokens.row_counts[index]
    example = np.repeat(every, counts)
    shares = []
    for tokens, at, index in groups:
        in_group = np.zeros(count, bool)
        in_group[at] = True
        # both are in the order of the batch's examples, and within an example in the order of its rows
        shares.append(Share(tokens, at, index, np.flatnonzero(in_group[example]), tokens.rows_of_many(index)))
    return Picked(shares, example, count)


def gather(
    chosen: Picked,
    pad_id: int,
    length: int | None = None,
    rows: int | None = None,
    keys: Collection[str] | None = None,
    examples: int | None = None,
) -> Gathered:
    """Return the rows of a batch.

    The arguments are those of `collate`, and `examples`: the number of examples, filling ones included, if
    filling rows share an example; each filling example has one row, the last one all that are left.
    """
    import torch  # imported here: the package imports this module and must not import torch

    real_rows = len(chosen.example)
    example, total = _filled(chosen, rows, keys, examples)
    lengths = np.ones(len(example), np.int64)  # a filling row has one token, so that nothing is nan
    for share in chosen.shares:
        lengths[share.at] = share.tokens.row_lengths[share.rows]
    longest = int(lengths.max())
    if length is None:
        length = longest
    elif longest > length:
        raise WeftError(
            f"row {int(lengths.argmax())} of the batch has {longest} tokens and length is {length}; tokenize "
            f"with max_length {length}, or raise length"
        )
    columns = np.arange(length)
    real = columns < lengths[:, None]  # [R, L]
    places = [share.tokens.offsets[share.rows][:, None] + columns for share in chosen.shares]

    def channel(name: str, rest: int) -> Tensor:
        values = np.full(real.shape, rest, np.int64)
        for share, indices in zip(chosen.shares, places, strict=True):
            flat = share.tokens.flat(name)
            if flat is not None:
                # indices beyond the end of the last row are clipped; the mask excludes their values
                values[share.at] = np.where(real[share.at], flat.take(indices, mode="clip"), rest)
        if name == "ids":
            values[real_rows:, 0] = values[0, 0]
        return torch.from_numpy(values)

    inputs = {"input_ids": channel("ids", pad_id), "attention_mask": torch.from_numpy(real.astype(np.int64))}
    needed = {
        k for k, name in CHANNELS.items() if any(s.tokens.flat(name) is not None for s in chosen.shares)
    }
    needed |= {"example"} if real_rows != chosen.total else set()
    wanted = needed if keys is None else set(keys)
    if not needed <= wanted:
        raise WeftError(f"the examples need {', '.join(sorted(needed - wanted))} beside {sorted(wanted)}")
    for key, name in CHANNELS.items():
        if key in wanted:
            inputs[key] = channel(name, 0)
    if "example" in wanted:
        inputs["example"] = torch.from_numpy(example)
    return Gathered(inputs, real, places, example, total)


def _filled(
    chosen: Picked, rows: int | None, keys: Collection[str] | None, examples: int | None = None
) -> tuple[Ints, int]:
    """Return the example of each of R rows, and the number of examples, filling ones included."""
    real_rows = len(chosen.example)
    if rows is None:
        return chosen.example, chosen.total
    if "example" not in (keys or ()) and real_rows == chosen.total:
        if rows < real_rows:
            raise WeftError(f"the examples have {real_rows} rows; expected at most {rows}")
        return np.arange(rows), rows
    if rows <= real_rows:
        raise WeftError(
            f"the examples have {real_rows} rows; expected fewer than {rows}, so that a filling row is left"
        )
    free, filling = rows - real_rows, 1 if examples is None else examples - chosen.total
    if not 1 <= filling <= free:
        raise WeftError(
            f"the {chosen.total} examples have {real_rows} rows; expected {rows} rows to leave one or more "
            f"for each of {filling} filling examples"
        )
    filler = np.minimum(np.arange(free), filling - 1)  # the filling example of each filling row
    return np.concatenate([chosen.example, chosen.total + filler]), chosen.total + filling
