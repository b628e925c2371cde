"""The targets of a batch, of one kind, as a tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import WeftError

if TYPE_CHECKING:
    from torch import Tensor

    from weft.tasks.kinds.kind import Kind


class Places(NamedTuple):
    """Where a batch's examples are.

    Attributes:
        example: the example of each row, R of them.
        length: the rows' length.
        size: the largest size of the model's tasks of the kind; 0: what the targets need.
    """

    example: Sequence[int]
    length: int
    size: int = 0


def collate(kind: Kind, values: Sequence[Any], mine: Sequence[bool], places: Places) -> Tensor:
    """By example [E, …], by row [R, …] or by token [R, L], as the kind's `targets_by` says.

    Args:
        kind: the kind.
        values: the targets of the batch's examples, E of them.
        mine: whether each example is of this kind; one of another kind gets the stand-in.
        places: where the examples are.
    """
    import numpy as np
    import torch

    targets = [value for value, here in zip(values, mine, strict=True) if here]
    size = places.size or max(map(kind.least_size, targets), default=1)
    each = (
        [kind.as_array(value, size) if here else None for value, here in zip(values, mine, strict=True)]
        if kind.targets_by == "example"
        else by_row(values, mine, places, None)
    )
    shape = kind.target_shape(size)
    if kind.targets_by == "token":
        shape = (max(places.length, max((len(row) for row in each if row), default=1)),)
    batch = np.full((len(each), *shape), kind.stand_in, kind.target_type)
    for number, value in enumerate(each):
        if value is None:
            continue
        if kind.targets_by == "token":
            batch[number, : len(value)] = value
        else:
            batch[number] = value
    return torch.from_numpy(batch)


def by_row(values: Sequence[Any], mine: Sequence[bool], places: Places, stand_in: Any) -> list[Any]:
    """The targets of each row, R of them, from a list a row that every example of this kind has."""
    rows = Counter(places.example)
    for number, (value, own) in enumerate(zip(values, mine, strict=True)):
        if own and len(value) != rows[number]:
            raise WeftError(
                f"example {number}: {len(value)} targets for {rows[number]} rows; expected one for each row"
            )
    taken = [0] * len(values)
    each = []
    for example in places.example:
        if example < len(mine) and mine[example]:  # rows to fill up a batch are of no example
            each.append(values[example][taken[example]])
            taken[example] += 1
        else:
            each.append(stand_in)
    return each
