"""Padding of low-rank components: zeros in the model that a task's file does not store.

All slots of a stacked parameter have one shape. A task with fewer components than the widest slot is padded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from weft.adapters.ranked import RankedAdapter
from weft.model.ownership import Owned

if TYPE_CHECKING:
    from weft.model.model import Model

Ranked = dict[int, tuple[RankedAdapter, str]]
"""Maps the id of a parameter whose slots have components to its adapter and its name there."""


def ranked_parameters(model: Model) -> Ranked:
    """The parameters that have a dimension of components."""
    return {
        id(adapter.get_parameter(name)): (adapter, name)
        for _, adapter in model.placements
        if isinstance(adapter, RankedAdapter)
        for name in adapter.along
    }


def without_padding(item: Owned, ranked: Ranked) -> Tensor:
    """Return an owner's tensor as its file stores it."""
    value = item.data
    if id(item.parameter) not in ranked or item.slot is None:
        return value
    adapter, name = ranked[id(item.parameter)]
    if adapter.stacks[name].slots != adapter.component_slots:
        return value  # components that all tasks use
    for dim in adapter.along[name]:
        value = value.narrow(dim, 0, adapter.width(item.slot))
    return value


def fits(item: Owned, tensor: Tensor, ranked: Ranked) -> bool:
    """Whether a file's tensor has the shape of the owner's, possibly after padding its components."""
    expected = item.data.shape
    if tensor.shape == expected:
        return True
    if id(item.parameter) not in ranked or tensor.dim() != len(expected):
        return False
    adapter, name = ranked[id(item.parameter)]
    pairs = enumerate(zip(tensor.shape, expected, strict=True))
    return all(n == m or (dim in adapter.along[name] and n < m) for dim, (n, m) in pairs)


def fill(item: Owned, tensor: Tensor) -> None:
    """Copy a file's tensor into the model, padded with zeros."""
    if tensor.shape != item.data.shape:
        item.data.zero_()
    item.data[tuple(slice(0, n) for n in tensor.shape)] = tensor.to(item.data.device)
