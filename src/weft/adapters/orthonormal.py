"""Orthonormal rows from any matrix, by operations that a CUDA graph can hold."""

from __future__ import annotations

import torch
from torch import Tensor

SHORTEST = 1e-12
"""Rows that are shorter than this after the projections are divided by this instead of by their length."""


def orthonormal_rows(m: Tensor) -> Tensor:
    """Return Q […, r, d] with Q·Qᵀ = I, whose first k rows span those of M, by Gram and Schmidt's process.

    q_k = v / ‖v‖,  v = m_k − Σ_{j<k} ⟨q_j, m_k⟩·q_j, and the same again with q_k for m_k: the second
    projection removes what rounding leaves of the first. Q is differentiable, does not depend on the rows'
    lengths and equals M, up to rounding, if the rows of M are orthonormal already. A QR decomposition of
    torch would wait for the device.

    Args:
        m: […, r, d] with r ≤ d; the rows should be linearly independent.

    Example:
        >>> orthonormal_rows(torch.tensor([[3.0, 0.0], [4.0, 2.0]]))
        tensor([[1., 0.],
                [0., 1.]])
    """
    rows: list[Tensor] = []
    for row in m.unbind(-2):
        row = _unit(row)
        for _ in range(2 if rows else 0):
            before = torch.stack(rows, -2)  # […, k, d]
            part = (before @ row[..., None]).mT @ before  # […, 1, d]
            row = _unit(row - part[..., 0, :])
        rows.append(row)
    return torch.stack(rows, -2)


def _unit(row: Tensor) -> Tensor:
    return row / row.norm(dim=-1, keepdim=True).clamp_min(SHORTEST)
