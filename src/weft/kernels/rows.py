"""What `weft.kernels.dispatch` is made of: a product per row, a look-up, sums, and their dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from weft.kernels.dispatch import Mix


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
    """What each row has of S slots: stacked[index] along the first dimension, [S, …] and [R] → [R, …].

    By `index_select`: the backward of `stacked[index]` is not deterministic on the CPU.

    A single slot is expanded, not looked up. The gradient of a look-up is a scatter, and Inductor replaces
    every index into a dimension of size 1 by the constant 0. On a CPU it then fails to generate the scatter.
    On a GPU it drops the mask of the store, so that threads beyond the last row add whatever they hold to the
    gradient (torch 2.11: `tl.atomic_add(out_ptr0 + 0, …, None)`), which ends in NaN.
    """
    if stacked.size(0) == 1:
        return stacked.expand(index.size(0), *stacked.shape[1:])
    return stacked.index_select(0, index)


def add(y: Tensor, term: Tensor) -> Tensor:
    """y + term in the dtype of y, in the memory of y where no gradient is wanted: y must be nobody else's.

    Under autocast a float32 vector would lift y to float32.
    """
    term = term.to(y.dtype)
    if may_overwrite(y) and torch.broadcast_shapes(y.shape, term.shape) == y.shape:
        return y.add_(term)
    return y + term


def add_rows(y: Tensor, stacked: Tensor, mix: Mix | None, rows: Tensor | None = None) -> Tensor:
    """y[r] + stacked[slot[r]] in the dtype of y: [R, L, o], [S, o] and [R] → [R, L, o].

    Args:
        y: nobody else's: overwritten where no gradient is wanted.
        stacked: a vector a slot.
        mix: the rows' slots; None where all use the one slot there is.
        rows: stacked[slot], [R, o] or [1, o], where it was looked up already.
    """
    slot = None if mix is None else mix.slot
    if torch.is_grad_enabled() and stacked.requires_grad:
        alike = slot is None or y.size(0) == slot.size(0)  # rows may share one y
        by_product = y.is_cuda and mix is not None and mix.setting != "reference"
        if alike and (by_product or rows is not None):
            added: Tensor = _AddRows.apply(y, stacked, slot, rows)
            return added
        rows = None  # a gradient does not go by what was looked up
    if rows is None:
        rows = stacked if slot is None else select(stacked, slot)
    return add(y, rows[:, None])


class _AddRows(torch.autograd.Function):
    """The sum, whose gradient for the vectors is a product: which rows use a slot · the gradient.

    Summed over tokens and then over rows, it would be two further passes over a gradient that a compiler can
    put together with neither what comes before it nor what comes after. As under `side`, one task's gradient
    that is not finite spoils those of the others.
    """

    @staticmethod
    def forward(ctx: Any, y: Tensor, stacked: Tensor, slot: Tensor | None, rows: Tensor | None) -> Tensor:
        """As `add_rows`."""
        ctx.save_for_backward(slot)
        ctx.of_stacked = stacked.shape, stacked.dtype
        if rows is None:
            rows = stacked if slot is None else select(stacked, slot)
        return y + rows[:, None].to(y.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """The gradient itself, and [S, R·L] · [R·L, o]."""
        (slot,), grad = ctx.saved_tensors, grads[0]
        (slots, _), dtype = ctx.of_stacked
        rows, length, width = grad.shape
        if slot is None:
            users = grad.new_ones(slots, rows * length)
        else:
            own = slot == torch.arange(slots, device=slot.device)[:, None]  # [S, R]
            users = own[:, :, None].expand(slots, rows, length).reshape(slots, -1).to(grad.dtype)
        return grad, (users @ grad.reshape(-1, width)).to(dtype), None, None


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
