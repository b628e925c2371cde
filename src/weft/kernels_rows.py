"""What every way of `weft.kernels` is made of: a product a row, a look-up, a sum, and the dtype of these."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def row_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Each row through its own map: y[r] = x[r] · weight[r]ᵀ + bias[r].

    Args:
        x: [R, L, i].
        weight: [R, o, i], or [1, o, i] for one map that all rows share.
        bias: [R, o] or [1, o], or none.

    Returns:
        [R, L, o].
    """
    y = F.linear(x, weight[0]) if weight.size(0) == 1 else torch.bmm(x, weight.transpose(1, 2))
    return y if bias is None else add(y, bias[:, None])


def select(stacked: Tensor, index: Tensor) -> Tensor:
    """stacked[index] along the first dimension, [S, …] and [R] → [R, …].

    By `index_select`: the backward of `stacked[index]` is not deterministic on the CPU.
    """
    return stacked.index_select(0, index)


def add(y: Tensor, term: Tensor) -> Tensor:
    """y + term in the dtype of y, in the memory of y where no gradient is wanted: y must be nobody else's.

    Under autocast a float32 vector would lift y to float32.
    """
    term = term.to(y.dtype)
    if may_overwrite(y) and torch.broadcast_shapes(y.shape, term.shape) == y.shape:
        return y.add_(term)
    return y + term


def may_overwrite(y: Tensor) -> bool:
    """Whether a value may be changed in place: no gradient is wanted, and no graph is being traced.

    On a CPU new memory costs more than the sum itself.
    """
    return not (torch.compiler.is_compiling() or torch.is_grad_enabled() or y.requires_grad)


def compute_dtype(x: Tensor) -> torch.dtype:
    """The dtype of a product with x: autocast's where it is on."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def is_half(x: Tensor) -> bool:
    """Whether a product with x is in bf16 or fp16."""
    return compute_dtype(x) in (torch.bfloat16, torch.float16)
