"""A batch as one piece of memory, so that it goes to the device in one move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

ALIGNMENT = 16
"""Bytes: where each tensor begins, so that every kernel may read it in whole words."""


class Field(NamedTuple):
    """One tensor of a packed batch."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]


def fields_of(tensors: Mapping[str, Tensor]) -> tuple[Field, ...]:
    """The form of some tensors, in their order."""
    return tuple(Field(name, x.dtype, tuple(x.shape)) for name, x in tensors.items())


def size_of(fields: Sequence[Field]) -> int:
    """The bytes that tensors of this form take together."""
    return sum(_rounded(_bytes(field)) for field in fields)


def views(memory: Tensor, fields: Sequence[Field]) -> dict[str, Tensor]:
    """Tensors of this form over some bytes, one after the other.

    Args:
        memory: uint8, [n] with n ≥ `size_of(fields)`.
        fields: the form.
    """
    found, at = {}, 0
    for field in fields:
        size = _bytes(field)
        found[field.name] = memory[at : at + size].view(field.dtype).view(field.shape)
        at += _rounded(size)
    return found


def pack(tensors: Mapping[str, Tensor], pinned: bool) -> Tensor:
    """All tensors in one piece of the host's memory, [n] of uint8.

    Args:
        tensors: on the host.
        pinned: whether the device is to fetch it by itself while the host goes on.
    """
    fields = fields_of(tensors)
    memory = torch.empty(size_of(fields), dtype=torch.uint8, pin_memory=pinned)
    for name, view in views(memory, fields).items():
        view.copy_(tensors[name])
    return memory


def _bytes(field: Field) -> int:
    return torch.Size(field.shape).numel() * field.dtype.itemsize


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
