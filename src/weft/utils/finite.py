"""Whether tensors hold only finite numbers: neither NaN nor infinity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

NOT_FINITE = "NaN or infinite"
"""The words of all messages about numbers that are not finite."""


def all_finite(tensor: Tensor) -> bool:
    """Whether all numbers of a tensor are finite; this waits for its device."""
    return not not_finite({"": tensor})


def not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """Return the names of the tensors that hold NaN or infinity, in their order.

    A sum over all numbers of a tensor is not finite if one of them is not, and takes a thirtieth of the time
    of `isfinite`, which makes several copies of the tensor. The sum of large finite numbers may overflow;
    such a tensor is then checked number by number. Each device is waited for once.

    Args:
        tensors: by name; of any dtype, on any devices.
    """
    import torch

    sums: dict[torch.device, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if tensor.is_floating_point() or tensor.is_complex():
            of_device = sums.setdefault(tensor.device, {})
            of_device[name] = _sum(tensor)
    doubtful = set()
    for of_device in sums.values():
        finite = torch.stack(list(of_device.values())).isfinite().tolist()
        doubtful |= {name for name, is_finite in zip(of_device, finite, strict=True) if not is_finite}
    return [name for name in tensors if name in doubtful and not _each_finite(tensors[name])]


def _sum(tensor: Tensor) -> Tensor:
    """The sum of a tensor's numbers as float32, []."""
    import torch

    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    # types of 8 bits have no sum
    return (tensor.float() if tensor.element_size() == 1 else tensor).sum().float()


def _each_finite(tensor: Tensor) -> bool:
    tensor = tensor.detach()
    return bool((tensor.float() if tensor.element_size() == 1 else tensor).isfinite().all())
