"""Packs a batch into one block of memory, so that one transfer moves it to the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

ALIGNMENT = 16
"""Each tensor begins at a multiple of so many bytes, so that every kernel may read whole words."""


class Field(NamedTuple):
    """One tensor of a packed batch."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]


def fields_of(tensors: Mapping[str, Tensor]) -> tuple[Field, ...]:
    """Return the fields of some tensors, in their order."""
    return tuple(Field(name, x.dtype, tuple(x.shape)) for name, x in tensors.items())


def size_of(fields: Sequence[Field]) -> int:
    """Return the bytes that packed tensors with these fields take."""
    return sum(_rounded(_bytes(field)) for field in fields)


def views(memory: Tensor, fields: Sequence[Field]) -> dict[str, Tensor]:
    """Return tensors with these fields as views of packed memory.

    Args:
        memory: uint8, [n] with n ≥ `size_of(fields)`.
        fields: the names, dtypes and shapes of the tensors.
    """
    tensors, at = {}, 0
    for field in fields:
        size = _bytes(field)
        tensors[field.name] = memory[at : at + size].view(field.dtype).view(field.shape)
        at += _rounded(size)
    return tensors


def pack(tensors: Mapping[str, Tensor], pinned: bool) -> Tensor:
    """Copy all tensors into one block of host memory, [n] of uint8.

    Args:
        tensors: tensors on the host.
        pinned: whether to use pinned memory, for transfers that do not block the host.
    """
    fields = fields_of(tensors)
    memory = torch.empty(size_of(fields), dtype=torch.uint8, pin_memory=pinned)
    # by NumPy where it knows the type: every call of torch gives up Python's lock, and in a server other
    # threads wait for it
    block, at = memory.numpy(), 0
    for name, size in zip(tensors, map(_bytes, fields), strict=True):
        source = tensors[name]
        part = block[at : at + size]
        if source.dtype == torch.bfloat16 and size:
            torch.from_numpy(part).view(source.dtype).view(source.shape).copy_(source)
        elif size:
            values = source.numpy()
            part.view(values.dtype).reshape(values.shape)[...] = values
        at += _rounded(size)
    return memory


def _bytes(field: Field) -> int:
    return torch.Size(field.shape).numel() * field.dtype.itemsize


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
