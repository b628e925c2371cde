"""Gradient clipping: by one norm over all gradients, or by the norm of each owner's slice of each weight.

Nothing here synchronizes with the device, and any gradient may be sharded over processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from weft.training.optim.sharding import is_sharded

if TYPE_CHECKING:
    from weft.training.settings import Training

NormOf = Callable[[Sequence[Tensor]], list[Tensor]]
"""The Euclidean norm of each whole tensor: N tensors of any shape → N tensors []."""

_SMALL = 1e-6  # as torch's clip_grad_norm_: a norm of zero must not divide


def clip_by(training: Training) -> Literal["global", "tensor"]:
    """Which norm `train.clip` limits: as configured, or by default as each optimizer was first used."""
    if training.clip_by == "auto":
        return "tensor" if training.optimizer == "bert_adam" else "global"
    return training.clip_by


def local(tensor: Tensor) -> Tensor:
    """The values of a tensor in this process, as a view: all of them, or the local shard of a `DTensor`."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


@torch.no_grad()
def norms(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The Euclidean norm of each tensor; for a sharded one, the norm of the whole tensor.

    Tensors that are sharded over the same processes are summed in one message.

    Args:
        tensors: of any shape, sharded or not.

    Returns:
        One norm [] per tensor, equal in every process.
    """
    if not tensors:
        return []
    tensor_norms = list(torch._foreach_norm([local(t) for t in tensors]))
    sharded: dict[Any, list[int]] = {}
    for number, tensor in enumerate(tensors):
        if is_sharded(tensor):
            sharded.setdefault(_groups_of(tensor), []).append(number)
    for groups, numbers in sharded.items():
        squares = torch.stack([tensor_norms[n] for n in numbers]).square()
        for group in groups:
            torch.distributed.all_reduce(squares, group=group)
        for number, norm in zip(numbers, squares.sqrt().unbind(), strict=True):
            tensor_norms[number] = norm
    return tensor_norms


@torch.no_grad()
def clip_together(gradients: Sequence[Tensor], max_norm: float | Tensor, norm_of: NormOf = norms) -> Tensor:
    """Scale all gradients by min(1, max_norm/(n + 1e-6)), where n is the norm over all of them together.

    Without sharding the result is bit-identical to `torch.nn.utils.clip_grad_norm_(…, foreach=True)`.

    Args:
        gradients: changed in place.
        max_norm: the largest norm that is not scaled; a tensor [] in a captured step.
        norm_of: computes the norm of each gradient.

    Returns:
        n, [].
    """
    if not gradients:
        return torch.tensor(0.0)
    norm = torch.linalg.vector_norm(torch.stack(norm_of(gradients)))
    torch._foreach_mul_([local(g) for g in gradients], _scale(norm, max_norm))
    return norm


@torch.no_grad()
def clip_each(
    gradients: Sequence[tuple[Tensor, bool]], max_norm: float | Tensor, norm_of: NormOf = norms
) -> list[Tensor]:
    """Scale every slice g of the gradients by min(1, max_norm/(‖g‖ + 1e-6)).

    A slice is a whole gradient [...], or one slot g[s] of a stacked gradient [S, …]. A slot is scaled as if
    it were a separate parameter, whatever the other slots hold, and a slot of zeros stays zero.

    Args:
        gradients: each with whether it is stacked; changed in place.
        max_norm: the largest norm that is not scaled; a tensor [] in a captured step.
        norm_of: computes the norm of each slice.

    Returns:
        The norms of each gradient's slices: [] or [S].
    """
    if not gradients:
        return []
    slices: list[Tensor] = []
    for gradient, stacked in gradients:
        slices.extend(gradient.unbind() if stacked else [gradient])
    # computed slot by slot, not along a dimension: the order of that sum would depend on S
    slice_norms = torch.stack(norm_of(slices))  # [N], N = Σ S
    sizes = [len(g) if stacked else 1 for g, stacked in gradients]
    per_gradient = [
        n.view(-1, *[1] * (g.dim() - 1)) if stacked else n.view(())  # [S, 1, …] or []
        for n, (g, stacked) in zip(_scale(slice_norms, max_norm).split(sizes), gradients, strict=True)
    ]
    # one product per parameter, not one per slot
    torch._foreach_mul_([local(g) for g, _ in gradients], per_gradient)
    return [
        n if stacked else n.view(())
        for n, (_, stacked) in zip(slice_norms.split(sizes), gradients, strict=True)
    ]


def _scale(norm: Tensor, max_norm: float | Tensor) -> Tensor:
    """min(1, max_norm/(norm + 1e-6)); multiplying by 1 costs less than reading the norm from the device."""
    return torch.clamp(max_norm / (norm + _SMALL), max=1.0)


def _groups_of(tensor: Any) -> tuple[Any, ...]:
    """The process groups over which a tensor is sharded; nothing is summed over replicas."""
    mesh = tensor.device_mesh
    return tuple(mesh.get_group(d) for d, placement in enumerate(tensor.placements) if placement.is_shard())
