"""Collate the targets of one kind in a batch into a tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import WeftError

if TYPE_CHECKING:
    from torch import Tensor

    from weft.tasks.kinds.kind import Kind


class Places(NamedTuple):
    """The layout of a batch.

    Attributes:
        example: the example of each of the R rows.
        length: the length of the rows.
        size: the largest size of the model's tasks of the kind; 0: the smallest size that fits the targets.
    """

    example: Sequence[int]
    length: int
    size: int = 0


def collate(kind: Kind, values: Sequence[Any], of_kind: Sequence[bool], places: Places) -> Tensor:
    """Return the targets by example [E, …], by row [R, …] or by token [R, L], depending on `targets_by`.

    Args:
        kind: the kind.
        values: the targets of the batch's E examples.
        of_kind: whether each example is of this kind; other examples get the stand-in.
        places: the layout of the batch.
    """
    import numpy as np
    import torch

    targets = [value for value, here in zip(values, of_kind, strict=True) if here]
    size = places.size or max(map(kind.least_size, targets), default=1)
    arrays = (
        [kind.as_array(value, size) if here else None for value, here in zip(values, of_kind, strict=True)]
        if kind.targets_by == "example"
        else by_row(values, of_kind, places, None)
    )
    shape = kind.target_shape(size)
    if kind.targets_by == "token":
        shape = (max(places.length, max((len(row) for row in arrays if row), default=1)),)
    batch = np.full((len(arrays), *shape), kind.stand_in, kind.target_type)
    for number, value in enumerate(arrays):
        if value is None:
            continue
        if kind.targets_by == "token":
            batch[number, : len(value)] = value
        else:
            batch[number] = value
    return torch.from_numpy(batch)


def by_row(values: Sequence[Any], of_kind: Sequence[bool], places: Places, stand_in: Any) -> list[Any]:
    """Return the targets of the R rows; every example of this kind has a list with one target per row."""
    rows = Counter(places.example)
    for number, (value, is_of_kind) in enumerate(zip(values, of_kind, strict=True)):
        if is_of_kind and len(value) != rows[number]:
            raise WeftError(
                f"example {number}: {len(value)} targets for {rows[number]} rows; expected one per row"
            )
    taken = [0] * len(values)
    targets = []
    for example in places.example:
        if example < len(of_kind) and of_kind[example]:  # rows that fill up a batch belong to no example
            targets.append(values[example][taken[example]])
            taken[example] += 1
        else:
            targets.append(stand_in)
    return targets
