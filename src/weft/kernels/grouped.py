"""Products that plain operations do not give: one for sorted groups of rows, and one onto what is there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

ALIGNED = 8
"""Rows must begin at multiples of 16 bytes, and a width that is none gives wrong numbers on some devices."""

ADD_IN_PLACE = True
"""Whether a compiled inference on CUDA adds a product to what is there by one call, and not by a product and
a further pass over it."""


def grouped(x: Tensor, weight: Tensor, ends: Tensor, dtype: torch.dtype) -> Tensor:
    """y[r] = x[r] · weight[slot]ᵀ for rows sorted by slot, as one grouped product.

    Widths that are no multiples of 8 are filled up with zeros: those of the weight's copy in the product's
    dtype, and those of x where it has such a width.

    Args:
        x: [R, L, i].
        weight: [S, o, i].
        ends: the number of rows that use a slot up to this one, [S].
        dtype: the product's.

    Returns:
        [R, L, o].
    """
    rows, length, in_width = x.shape
    out_width = weight.size(1)
    more_in, more_out = -in_width % ALIGNED, -out_width % ALIGNED
    flat, maps = x.reshape(rows * length, in_width).to(dtype), weight.to(dtype)
    if more_in:
        flat = F.pad(flat, (0, more_in))
    if more_in or more_out:
        maps = F.pad(maps, (0, more_in, 0, more_out))
    y: Tensor = _Grouped.apply(flat, maps, (ends * length).to(torch.int32))
    return y[:, :out_width].unflatten(0, (rows, length))


class _Grouped(torch.autograd.Function):
    """The grouped product with a backward that takes any gradient and gives absent groups none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
        """[N, i], [S, o, i] and [S] → [N, o]."""
        ctx.save_for_backward(x, weight, ends)
        return _grouped_mm(x.contiguous(), weight.contiguous().transpose(1, 2), ends)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Of x and of the weight."""
        x, weight, ends = ctx.saved_tensors
        grad = grads[0].contiguous()  # the kernel takes no broadcast or transposed one
        of_x = _grouped_mm(grad, weight.contiguous(), ends) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return of_x, None, None
        of_weight = _grouped_mm(grad.t(), x.contiguous(), ends)  # [S, o, i]
        # some devices leave what they find in memory where a group has no rows
        present = ends > F.pad(ends, (1, 0))[:-1]
        return of_x, torch.where(present[:, None, None], of_weight, 0.0), None


def _grouped_mm(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    product: Tensor = F.grouped_mm(a, b, offs=ends)
    return product


def add_product(y: Tensor, a: Tensor, b: Tensor, overwrite: bool) -> Tensor:
    """y + a·b in one pass over y where that can be had.

    Args:
        y: [R, L, o].
        a: [R, L, r].
        b: [1, r, o], or [R, r, o]; of the dtype of the others.
        overwrite: whether y may be changed.

    Returns:
        [R, L, o].
    """
    if torch.compiler.is_compiling():
        if ADD_IN_PLACE and y.is_cuda and not torch.is_grad_enabled():
            torch.ops.weft.add_product_(y, a, b)
            return y
        return y + (torch.bmm(a, b) if b.size(0) > 1 else a @ b[0])
    if overwrite and y.is_contiguous():
        _add_product_(y, a, b)
        return y
    if b.size(0) > 1:
        return torch.baddbmm(y, a, b)
    return torch.addmm(y.flatten(0, 1), a.flatten(0, 1), b[0]).view_as(y)


def _add_product_(y: Tensor, a: Tensor, b: Tensor) -> None:
    """y += a·b, in place."""
    if b.size(0) > 1:
        y.baddbmm_(a, b)
    else:
        y.view(-1, y.size(-1)).addmm_(a.flatten(0, 1), b[0])  # a view or an error, never a copy


# a mutating operation of our own: the compiler would turn addmm_ into a copy of y and a product
torch.library.define("weft::add_product_", "(Tensor(a!) y, Tensor a, Tensor b) -> ()")
torch.library.impl("weft::add_product_", "CompositeExplicitAutograd")(_add_product_)
