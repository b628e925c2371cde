"""Clipping gradients: by one norm over all of them, or each owner's part of each weight by its own.

Nothing here waits for a device, and any gradient may be spread over processes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from weft.training.optim.sharding import is_part

if TYPE_CHECKING:
    from weft.training.settings import Training

NormOf = Callable[[Sequence[Tensor]], list[Tensor]]
"""The Euclidean norm of each whole tensor: N tensors of any shape → N tensors []."""

_SMALL = 1e-6  # as torch's clip_grad_norm_: a norm of zero must not divide


def clip_by(training: Training) -> Literal["global", "tensor"]:
    """What `train.clip` is the norm of: as the settings say, or as each optimiser was first used."""
    if training.clip_by == "auto":
        return "tensor" if training.optimizer == "bert_adam" else "global"
    return training.clip_by


def local(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor, over the same memory: all of it, or its part (a `DTensor`'s)."""
    return tensor.to_local() if is_part(tensor) else tensor  # type: ignore[attr-defined]


@torch.no_grad()
def norms(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The Euclidean norm of each tensor; of one that is spread over processes, that of the whole.

    All that is spread over the same processes is summed in one message.

    Args:
        tensors: of any shape, spread or not.

    Returns:
        One norm [] a tensor, the same in every process.
    """
    if not tensors:
        return []
    found = list(torch._foreach_norm([local(t) for t in tensors]))
    spread: dict[Any, list[int]] = {}
    for number, tensor in enumerate(tensors):
        if is_part(tensor):
            spread.setdefault(_groups_of(tensor), []).append(number)
    for groups, numbers in spread.items():
        squares = torch.stack([found[n] for n in numbers]).square()
        for group in groups:
            torch.distributed.all_reduce(squares, group=group)
        for number, norm in zip(numbers, squares.sqrt().unbind(), strict=True):
            found[number] = norm
    return found


@torch.no_grad()
def clip_together(gradients: Sequence[Tensor], max_norm: float | Tensor, norm_of: NormOf = norms) -> Tensor:
    """Scale all gradients by min(1, max_norm/(n + 1e-6)), n the norm of all their numbers together.

    For gradients in one place this is `torch.nn.utils.clip_grad_norm_(…, foreach=True)`, bit by bit.

    Args:
        gradients: changed in place.
        max_norm: the largest norm that is left as it is; a tensor [] where it is data.
        norm_of: the norm of each.

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
    """Scale every part g of the gradients by its own min(1, max_norm/(‖g‖ + 1e-6)).

    A part is a whole gradient [...], or one slot g[s] of a stacked one [S, …]: a slot is scaled as if it were
    a parameter of its own, whatever the others hold, and one that is zero stays zero.

    Args:
        gradients: each with whether it is stacked; changed in place.
        max_norm: the largest norm that is left as it is; a tensor [] where it is data.
        norm_of: the norm of each part.

    Returns:
        The norms of each gradient's parts: [] or [S].
    """
    if not gradients:
        return []
    parts: list[Tensor] = []
    for gradient, stacked in gradients:
        parts.extend(gradient.unbind() if stacked else [gradient])
    # the norms are found slot by slot, not along a dimension: its sum would run in an order that depends on S
    found = torch.stack(norm_of(parts))  # [N], N = Σ S
    sizes = [len(g) if stacked else 1 for g, stacked in gradients]
    per_gradient = [
        n.view(-1, *[1] * (g.dim() - 1)) if stacked else n.view(())  # [S, 1, …] or []
        for n, (g, stacked) in zip(_scale(found, max_norm).split(sizes), gradients, strict=True)
    ]
    # one product a parameter, not a slot
    torch._foreach_mul_([local(g) for g, _ in gradients], per_gradient)
    return [
        n if stacked else n.view(()) for n, (_, stacked) in zip(found.split(sizes), gradients, strict=True)
    ]


def _scale(norm: Tensor, max_norm: float | Tensor) -> Tensor:
    """min(1, max_norm/(norm + 1e-6)); multiplying by 1 costs less than asking the device for the norm."""
    return torch.clamp(max_norm / (norm + _SMALL), max=1.0)


def _groups_of(tensor: Any) -> tuple[Any, ...]:
    """The process groups over which a tensor is cut; where it is only repeated, nothing is summed."""
    mesh = tensor.device_mesh
    return tuple(mesh.get_group(d) for d, placement in enumerate(tensor.placements) if placement.is_shard())
