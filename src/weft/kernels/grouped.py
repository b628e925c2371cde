"""Two matrix products: a grouped one for rows sorted by slot, and one that accumulates into a tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

ALIGNED = 8
"""Rows must begin at multiples of 16 bytes: other widths give wrong numbers on some devices."""

ADD_IN_PLACE = True
"""Whether compiled inference on CUDA adds a product to an existing tensor in one call, instead of computing
the product and adding it in a second pass."""


def grouped(x: Tensor, weight: Tensor, ends: Tensor, dtype: torch.dtype) -> Tensor:
    """y[r] = x[r] · weight[slot]ᵀ for rows sorted by slot, as one grouped product.

    Widths that are not multiples of 8 are padded with zeros: in the copy of the weight that is made in the
    product's dtype, and in x if i is such a width.

    Args:
        x: [R, L, i].
        weight: [S, o, i].
        ends: the cumulative number of rows up to and including each slot, [S].
        dtype: the product's dtype.

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
    """The grouped product; its backward accepts any memory layout and gives empty groups a zero gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
        """[N, i], [S, o, i] and [S] → [N, o]."""
        ctx.save_for_backward(x, weight, ends)
        return _grouped_mm(x.contiguous(), weight.contiguous().transpose(1, 2), ends)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Return the gradients of x and of the weight."""
        x, weight, ends = ctx.saved_tensors
        grad = grads[0].contiguous()  # the kernel rejects broadcast or transposed gradients
        x_grad = _grouped_mm(grad, weight.contiguous(), ends) if ctx.needs_input_grad[0] else None
        if not ctx.needs_input_grad[1]:
            return x_grad, None, None
        weight_grad = _grouped_mm(grad.t(), x.contiguous(), ends)  # [S, o, i]
        # some devices leave memory uninitialized where a group has no rows
        present = ends > F.pad(ends, (1, 0))[:-1]
        return x_grad, torch.where(present[:, None, None], weight_grad, 0.0), None


def _grouped_mm(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    product: Tensor = F.grouped_mm(a, b, offs=ends)
    return product


def add_product(y: Tensor, a: Tensor, b: Tensor, overwrite: bool) -> Tensor:
    """Return y + a·b, in one pass over y where possible.

    Args:
        y: [R, L, o].
        a: [R, L, r].
        b: [1, r, o], or [R, r, o]; all three have the same dtype.
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


# a custom mutating operation: the compiler would turn addmm_ into a copy of y and a product
torch.library.define("weft::add_product_", "(Tensor(a!) y, Tensor a, Tensor b) -> ()")
torch.library.impl("weft::add_product_", "CompositeExplicitAutograd")(_add_product_)
