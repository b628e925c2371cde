"""Building blocks of `weft.kernels.dispatch`: one product per row, slot look-up, sums, and their dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from weft.kernels.dispatch import Mix


def row_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Map each row by its own weight: y[r] = x[r] · weight[r]ᵀ + bias[r].

    Args:
        x: [R, L, i].
        weight: [R, o, i], or [1, o, i] for one map that all rows share.
        bias: [R, o] or [1, o], or None.

    Returns:
        [R, L, o].
    """
    y = F.linear(x, weight[0]) if weight.size(0) == 1 else torch.bmm(x, weight.transpose(1, 2))
    return y if bias is None else add(y, bias[:, None])


def select(stacked: Tensor, index: Tensor) -> Tensor:
    """Look up the slot of each row: stacked[index] along the first dimension, [S, …] and [R] → [R, …].

    This uses `index_select`, because the backward of `stacked[index]` is not deterministic on the CPU.

    A single slot is expanded, not looked up. The gradient of a look-up is a scatter, and Inductor replaces
    every index into a dimension of size 1 by the constant 0. On a CPU it then fails to generate the scatter.
    On a GPU it drops the mask of the store, so that threads beyond the last row add whatever they hold to the
    gradient (torch 2.11: `tl.atomic_add(out_ptr0 + 0, …, None)`), which ends in NaN.
    """
    if stacked.size(0) == 1:
        return stacked.expand(index.size(0), *stacked.shape[1:])
    return stacked.index_select(0, index)


def add(y: Tensor, term: Tensor) -> Tensor:
    """Return y + term in the dtype of y; y is overwritten where no gradient is needed.

    Nothing else may hold y. Under autocast a float32 vector would promote y to float32.
    """
    term = term.to(y.dtype)
    if may_overwrite(y) and torch.broadcast_shapes(y.shape, term.shape) == y.shape:
        return y.add_(term)
    return y + term


def add_rows(y: Tensor, stacked: Tensor, mix: Mix | None, rows: Tensor | None = None) -> Tensor:
    """y[r] + stacked[slot[r]] in the dtype of y: [R, L, o], [S, o] and [R] → [R, L, o].

    Args:
        y: a tensor that nothing else holds: it is overwritten where no gradient is needed.
        stacked: one vector per slot.
        mix: the rows' slots; None if there is a single slot.
        rows: stacked[slot], [R, o] or [1, o], if it has been looked up already.
    """
    slot = None if mix is None else mix.slot
    if torch.is_grad_enabled() and stacked.requires_grad:
        row_per_slot = slot is None or y.size(0) == slot.size(0)  # all rows may share one y
        use_product = y.is_cuda and mix is not None and mix.setting != "reference"
        if row_per_slot and (use_product or rows is not None):
            added: Tensor = _AddRows.apply(y, stacked, slot, rows)
            return added
        rows = None  # what was looked up before carries no gradient
    if rows is None:
        rows = stacked if slot is None else select(stacked, slot)
    return add(y, rows[:, None])


class _AddRows(torch.autograd.Function):
    """The sum; the gradient of the vectors is one product, [slot is used by row] · gradient.

    Summing over tokens and then over rows would take two more passes over the gradient, which a compiler can
    fuse neither with the operations before nor with those after. As under `side`, a non-finite gradient of
    one task makes the gradients of the other tasks non-finite.
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
            uses_slot = slot == torch.arange(slots, device=slot.device)[:, None]  # [S, R]
            users = uses_slot[:, :, None].expand(slots, rows, length).reshape(slots, -1).to(grad.dtype)
        return grad, (users @ grad.reshape(-1, width)).to(dtype), None, None


def may_overwrite(y: Tensor) -> bool:
    """Return whether a tensor may be changed in place: no gradient is needed, and no graph is being traced.

    On a CPU, allocating memory costs more than the sum itself.
    """
    return not (torch.compiler.is_compiling() or torch.is_grad_enabled() or y.requires_grad)


def compute_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of a product with x: autocast's if autocast is enabled."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def is_half(x: Tensor) -> bool:
    """Return whether a product with x is computed in bf16 or fp16."""
    return compute_dtype(x) in (torch.bfloat16, torch.float16)
