"""Components of low rank that a task does not have: zeros in the model, and not in its file.

Slots of one stacked parameter have one shape, so that a task with fewer components than the widest is padded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from weft.adapters.ranked import RankedAdapter
from weft.model.ownership import Owned

if TYPE_CHECKING:
    from weft.model.model import Model

Ranked = dict[int, tuple[RankedAdapter, str]]
"""By the id of a parameter whose slots have components: its adapter, and its name there."""


def ranked_parameters(model: Model) -> Ranked:
    """The parameters along which components run."""
    return {
        id(adapter.get_parameter(name)): (adapter, name)
        for _, adapter in model.placements
        if isinstance(adapter, RankedAdapter)
        for name in adapter.along
    }


def without_padding(item: Owned, ranked: Ranked) -> Tensor:
    """An owner's tensor as its file holds it."""
    value = item.data
    if id(item.parameter) not in ranked or item.slot is None:
        return value
    adapter, name = ranked[id(item.parameter)]
    if adapter.stacks[name].slots != adapter.component_slots:
        return value  # components that all tasks use
    for dim in adapter.along[name]:
        value = value.narrow(dim, 0, adapter.width(item.slot))
    return value


def fits(item: Owned, found: Tensor, ranked: Ranked) -> bool:
    """Whether a file's tensor is the owner's, or would be with padding behind its components."""
    expected = item.data.shape
    if found.shape == expected:
        return True
    if id(item.parameter) not in ranked or found.dim() != len(expected):
        return False
    adapter, name = ranked[id(item.parameter)]
    pairs = enumerate(zip(found.shape, expected, strict=True))
    return all(n == m or (dim in adapter.along[name] and n < m) for dim, (n, m) in pairs)


def fill(item: Owned, found: Tensor) -> None:
    """Copy a file's tensor into the model, zeros behind it."""
    if found.shape != item.data.shape:
        item.data.zero_()
    item.data[tuple(slice(0, n) for n in found.shape)] = found.to(item.data.device)
