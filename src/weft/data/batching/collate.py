"""Rows of tokens → the tensors of a batch."""

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
"""What a batch may hold beside ids and mask, and what `Tokens` calls it."""


class Share(NamedTuple):
    """Those of a batch's examples that are of one split.

    Attributes:
        tokens: the split.
        examples: which of the batch's examples they are, [k].
        which: which of the split's, [k].
        at: which of the batch's rows are theirs, [r].
        rows: which of the split's rows these are, [r].
    """

    tokens: Tokens
    examples: Ints
    which: Ints
    at: Ints
    rows: Ints


class Picked(NamedTuple):
    """The E examples of a batch, by split.

    Attributes:
        shares: those of each split.
        example: the example of each row, [R].
        total: E.
    """

    shares: list[Share]
    example: Ints
    total: int


class Gathered(NamedTuple):
    """A batch's rows.

    Attributes:
        inputs: what the forward pass takes, without the tasks.
        real: true at tokens, [R, L].
        places: of each share, where its rows' tokens are among all of its split's, [r, L]; beyond a row's end
            any number.
        example: the example of each row, those of no example included, [R].
        total: the examples, those that stand for nothing included.
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
        items: (tokens, example) of each of E examples, from any mix of splits and tasks.
        pad_id: the tokenizer's pad_token_id.
        length: L; by default the length of the longest row.
        rows: R; by default as many as the examples have. Further rows have one token and are of example E,
            which stands for nothing; in a batch without `example` each is one by itself.
        keys: which of `token_type_ids`, `marks` and `example` the batch has, whatever its examples need.

    Returns:
        `input_ids` and `attention_mask`, [R, L] of int64; `token_type_ids`, the same, if any of the items has
        types (a row of tokens without types has type 0); `marks`, the same, if any has marks; and `example`,
        the example of each row, [R], if any example has not exactly one.
    """
    return gather(picked(items), pad_id, length, rows, keys).inputs


def picked(items: Sequence[tuple[Tokens, int]], task: Ints | None = None) -> Picked:
    """The examples of a batch by split; with the task of each, [E], by split and task."""
    if not items:
        raise WeftError("a batch needs at least one row; found none")
    count = len(items)
    first = items[0][0]
    every = np.arange(count)
    alike = task is None or bool((task == task[0]).all())
    if alike and all(tokens is first for tokens, _ in items):
        found = [(first, every, np.fromiter((i for _, i in items), np.int64, count))]
    else:
        ids = [0] * count if task is None else task.tolist()
        by_split: dict[tuple[int, int], tuple[Tokens, list[int], list[int]]] = {}
        for place, ((tokens, i), t) in enumerate(zip(items, ids, strict=True)):
            own = by_split.setdefault((id(tokens), t), (tokens, [], []))
            own[1].append(place)
            own[2].append(i)
        found = [(tokens, np.array(a, np.int64), np.array(b, np.int64)) for tokens, a, b in by_split.values()]
    return picked_by_split(found, count)


def picked_by_split(found: Sequence[tuple[Tokens, Ints, Ints]], count: int) -> Picked:
    """The examples of a batch.

    Args:
        found: of each split, which of the batch's examples are its own, [k], and which of its examples these
            are, [k].
        count: the batch's examples, E.
    """
    every = np.arange(count)
    if all(tokens.one_row_each for tokens, _, _ in found):
        return Picked([Share(tokens, at, index, at, index) for tokens, at, index in found], every, count)
    counts = np.empty(count, np.int64)
    for tokens, at, index in found:
        counts[at] = tokens.row_counts[index]
    example = np.repeat(every, counts)
    shares = []
    for tokens, at, index in found:
        mine = np.zeros(count, bool)
        mine[at] = True
        # both in the order of the batch's examples, within each in the order of its rows
        shares.append(Share(tokens, at, index, np.flatnonzero(mine[example]), tokens.rows_of_many(index)))
    return Picked(shares, example, count)


def gather(
    chosen: Picked,
    pad_id: int,
    length: int | None = None,
    rows: int | None = None,
    keys: Collection[str] | None = None,
) -> Gathered:
    """The rows of a batch; arguments as `collate` has them."""
    import torch  # here: the package imports this module, and must not import torch

    own = len(chosen.example)
    example, total = _filled(chosen, rows, keys)
    lengths = np.ones(len(example), np.int64)  # a row of no example has one token: nothing is ever nan
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
        for share, where in zip(chosen.shares, places, strict=True):
            flat = share.tokens.flat(name)
            if flat is not None:
                # beyond the end of the last row there is nothing to take: clipped, and left out by the mask
                values[share.at] = np.where(real[share.at], flat.take(where, mode="clip"), rest)
        if name == "ids":
            values[own:, 0] = values[0, 0]
        return torch.from_numpy(values)

    inputs = {"input_ids": channel("ids", pad_id), "attention_mask": torch.from_numpy(real.astype(np.int64))}
    needed = {
        k for k, name in CHANNELS.items() if any(s.tokens.flat(name) is not None for s in chosen.shares)
    }
    needed |= {"example"} if own != chosen.total else set()
    wanted = needed if keys is None else set(keys)
    if not needed <= wanted:
        raise WeftError(f"the examples need {', '.join(sorted(needed - wanted))} beside {sorted(wanted)}")
    for key, name in CHANNELS.items():
        if key in wanted:
            inputs[key] = channel(name, 0)
    if "example" in wanted:
        inputs["example"] = torch.from_numpy(example)
    return Gathered(inputs, real, places, example, total)


def _filled(chosen: Picked, rows: int | None, keys: Collection[str] | None) -> tuple[Ints, int]:
    """The example of each of R rows, and how many examples there are with those that stand for nothing."""
    own = len(chosen.example)
    if rows is None:
        return chosen.example, chosen.total
    if "example" not in (keys or ()) and own == chosen.total:
        if rows < own:
            raise WeftError(f"the examples have {own} rows; expected {rows} at the most")
        return np.arange(rows), rows
    if rows <= own:
        raise WeftError(
            f"the examples have {own} rows; expected fewer than {rows}, so that one is left for no example"
        )
    return np.concatenate([chosen.example, np.full(rows - own, chosen.total)]), chosen.total + 1
