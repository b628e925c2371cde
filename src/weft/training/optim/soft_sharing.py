"""Soft parameter sharing: every task has an encoder of its own, and a penalty keeps them similar.

For the T tasks' values W_1 … W_T of each parameter of the encoder that trains:

    l2:          λ · Σ_{s<t} ‖W_s − W_t‖²_F  =  λ · T · Σ_t ‖W_t − W̄‖²_F
    trace_norm:  λ · ‖M‖_*,   M = [vec W_1; …; vec W_T],  [T, n]

The first is Duong et al. (2015), equation 2.9 of the CA-MTL thesis for two tasks, where its sign is minus;
it is added to the loss. The second is Yang and Hospedales (2017): the norm of the tensor of all tasks'
weights, flattened along the tasks. The singular values of M are the roots of the eigenvalues of M·Mᵀ, [T, T]:

    ‖M‖_* = Σ_i √λ_i(M·Mᵀ),   ∂‖M‖_*/∂M = (M·Mᵀ)^(−1/2)·M

At the start all encoders are equal, and M has one singular value that is not zero. Along the directions of
the others the norm has no derivative; the subgradient with 0 there is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weft.methods.separate import Separate

if TYPE_CHECKING:
    from weft.methods.separate import SoftSharing
    from weft.model.model import Model

ZERO = 1e-6
"""Singular values below this share of the largest one count as 0."""
BLOCK = 1 << 20
"""The number of columns of M that are multiplied at a time, in float64."""


def soft_sharing_of(model: Model) -> SoftSharing | None:
    """The soft sharing of a model; None: it has none, or only one task."""
    soft = model.method.soft if isinstance(model.method, Separate) else None
    if soft is None or len(model.tasks) < 2 or not (soft.l2 or soft.trace_norm):
        return None
    return soft


def soft_penalty(model: Model, soft: SoftSharing) -> Tensor:
    """The penalty of all tasks' encoders, a scalar.

    Args:
        model: a model with one encoder per task.
        soft: the weights of the penalties.
    """
    encoders = [dict(encoder.named_parameters()) for encoder in model.encoders]
    total = torch.zeros((), device=next(model.parameters()).device)
    for name, first in encoders[0].items():
        if not first.requires_grad:
            continue
        values = [encoder[name] for encoder in encoders]
        if soft.l2:
            total = total + soft.l2 * squared_distances(values)
        if soft.trace_norm:
            total = total + soft.trace_norm * trace_norm(values)
    return total


def squared_distances(values: Sequence[Tensor]) -> Tensor:
    """Σ_{s<t} ‖W_s − W_t‖²_F.

    Args:
        values: T tensors of one shape.
    """
    stacked = torch.stack([value.flatten() for value in values])
    return len(values) * (stacked - stacked.mean(0)).square().sum()


def trace_norm(values: Sequence[Tensor]) -> Tensor:
    """‖[vec W_1; …; vec W_T]‖_*, with a subgradient where singular values are 0.

    Args:
        values: T tensors of one shape.
    """
    stacked = torch.stack([value.flatten() for value in values])
    with torch.no_grad():
        # float64: tasks differ in the third digit, and eigenvalues are squares
        products = sum(block.double() @ block.double().T for block in stacked.split(BLOCK, 1))
        eigenvalues, vectors = torch.linalg.eigh(products)
        roots = eigenvalues.clamp_min(0).sqrt()
        inverse = torch.where(roots > ZERO * roots.max(), 1 / roots.clamp_min(1e-30), 0)
        gradient = ((vectors * inverse) @ vectors.T).to(stacked.dtype) @ stacked
    # its value is the norm, and its derivative is the norm's
    return (stacked * gradient).sum()
