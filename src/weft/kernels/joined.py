"""Linear maps that read the same input, computed together with their low-rank terms in three products.

A term of few components is written as

    term = z·upᵀ,  z = (x·downᵀ) ∘ keep,  or z = keep if the term does not read x

For LoRA, `keep` selects the components of the row's slot. For MORRIS, it holds the coefficients of the row's
task. A bias per task has one component per slot, and `keep` selects the row's. Maps of one input are joined
with all their terms: y = x·Wᵀ + b + z·Uᵀ. W stacks the maps, and U holds the ups, each in the rows of its map
and zero in the rows of the other maps. Three products replace about a dozen, one or more per map and term.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from weft.kernels.dispatch import choose
from weft.kernels.rows import compute_dtype

ALIGNED = 8
"""Rows of bf16 that begin at multiples of 16 bytes are read in whole words: z is padded with zeros."""

PARTS = 8
"""The number of parts into which a product over all tokens is split."""


class Components(NamedTuple):
    """A low-rank term of a linear map.

    Attributes:
        keep: the factor of each component for each row, [R, k], or [1, k] if it is the same for all rows.
        up: [o, k].
        down: [k, i]; None if the term does not read x.
    """

    keep: Tensor
    up: Tensor
    down: Tensor | None = None


def joins(slots: int, rank: int, width: int, device: torch.device) -> bool:
    """Return whether a term is cheapest with the components of all slots side by side.

    Args:
        slots: S.
        rank: the number of components per slot.
        width: the width of the map's input.
        device: the device it runs on.
    """
    strategy = choose(slots, rank, width, device=device.type, half=True, trains=True, ordered=False)
    return strategy == "side"


def own_slot(slot: Tensor, slots: int, dtype: torch.dtype) -> Tensor:
    """Return 1 where a row uses a slot, else 0, [R, S]."""
    return (slot[:, None] == torch.arange(slots, device=slot.device)).to(dtype)


def side_by_side(down: Tensor, up: Tensor, slot: Tensor | None, scale: float = 1.0) -> Components:
    """Return the low-rank maps of all slots as components, of which a row keeps those of its slot.

    Args:
        down: [S, r, i].
        up: [S, o, r].
        slot: the slot of each row, [R]; None if there is a single slot.
        scale: a factor of the term.
    """
    slots, rank = down.shape[:2]
    if slot is None:
        keep = down.new_full((1, rank), scale)
    else:
        keep = own_slot(slot, slots, down.dtype).repeat_interleave(rank, 1) * scale
    return Components(keep, up.transpose(0, 1).flatten(1), down.flatten(0, 1))


def joined_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, terms: Sequence[Sequence[Components]]
) -> Tensor:
    """Apply several maps of one input and all their terms: [R, L, i] → [R, L, P·o].

    Args:
        x: [R, L, i].
        weight: the P maps, stacked, [P·o, i]; no gradient is computed for it.
        bias: [P·o], or None; no gradient is computed for it.
        terms: the terms of each of the P maps; at least one term in total.
    """
    dtype = compute_dtype(x)
    rows, x = x.size(0), x.to(dtype)
    placed = [(number, term) for number, map_terms in enumerate(terms) for term in map_terms]
    placed.sort(key=lambda entry: entry[1].down is None)  # those that read x come first
    keep = torch.cat([term.keep.expand(rows, -1) for _, term in placed], 1).to(dtype)
    up = torch.cat([_in_rows(term.up, number, len(terms)) for number, term in placed], 1).to(dtype)
    fill = -up.size(1) % ALIGNED
    if fill:
        keep, up = F.pad(keep, (0, fill)), F.pad(up, (0, fill))
    downs = [term.down for _, term in placed if term.down is not None]
    down = torch.cat(downs).to(dtype) if downs else None
    y: Tensor = _Joined.apply(x, weight.to(dtype), None if bias is None else bias.to(dtype), down, keep, up)
    return y


def _in_rows(up: Tensor, number: int, maps: int) -> Tensor:
    """[o, k] → [P·o, k], zero in the rows of the other maps."""
    width = up.size(0)
    return F.pad(up, (0, 0, number * width, (maps - 1 - number) * width))


class _Joined(torch.autograd.Function):
    """y = x·Wᵀ + b + z·Uᵀ, z = [(x·downᵀ) ∘ keep, keep]: [R, L, i] → [R, L, O].

    The first k of K components read x. Gradients are computed for x, down [k, i], keep [R, K] and up [O, K].
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        down: Tensor | None,
        keep: Tensor,
        up: Tensor,
    ) -> Tensor:
        """Compute the maps' product, and add the terms' product to it."""
        rows, length, _ = x.shape
        reading = 0 if down is None else down.size(0)
        low = None if down is None else F.linear(x, down)
        wide = keep[:, None]
        parts = [] if low is None else [low * wide[..., :reading]]
        if keep.size(1) > reading:
            parts.append(wide[..., reading:].expand(rows, length, -1))
        z = torch.cat(parts, -1) if len(parts) > 1 else parts[0].contiguous()
        ctx.save_for_backward(x, weight, down, keep, up, z, low)
        y: Tensor = torch.ops.weft.joined(x.flatten(0, 1), weight, bias, z.flatten(0, 1), up)
        return y.unflatten(0, (rows, length))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Compute dx = G·W plus the gradient through z, dz = G·U, and dU = Gᵀ·z."""
        x, weight, down, keep, up, z, low = ctx.saved_tensors
        needs_x, _, _, needs_down, needs_keep, needs_up = ctx.needs_input_grad
        rows, length, _ = x.shape
        grad = grads[0].flatten(0, 1)
        reading = 0 if down is None else down.size(0)
        needed = needs_keep or (reading and (needs_x or needs_down))
        z_grad = (grad @ up).unflatten(0, (rows, length)) if needed else None
        input_grads: list[Tensor | None] = [None] * 6
        low_grad = None
        if reading and z_grad is not None:
            low_grad = (z_grad[..., :reading] * keep[:, None, :reading]).flatten(0, 1)
        if needs_x and low_grad is not None:
            input_grads[0] = torch.ops.weft.joined(grad, weight.t(), None, low_grad, down.t()).view_as(x)
        elif needs_x:
            input_grads[0] = (grad @ weight).view_as(x)
        if needs_down and low_grad is not None:
            input_grads[3] = torch.ops.weft.tall_product(low_grad, x.flatten(0, 1))
        if needs_keep and z_grad is not None:
            sums = [] if low is None else [(z_grad[..., :reading] * low).sum(1)]
            if keep.size(1) > reading:
                sums.append(z_grad[..., reading:].sum(1))
            input_grads[4] = torch.cat(sums, 1)
        if needs_up:
            input_grads[5] = torch.ops.weft.tall_product(grad, z.flatten(0, 1))
        return tuple(input_grads)


def _joined(x: Tensor, weight: Tensor, bias: Tensor | None, z: Tensor, up: Tensor) -> Tensor:
    y = x @ weight.t() if bias is None else torch.addmm(bias, x, weight.t())
    return y.addmm_(z, up.t())


def _shape_of_joined(x: Tensor, weight: Tensor, bias: Tensor | None, z: Tensor, up: Tensor) -> Tensor:
    return x.new_empty(x.size(0), weight.size(0))


def _tall_product(a: Tensor, b: Tensor) -> Tensor:
    """Return aᵀ·b, [N, o] and [N, k] → [o, k]: a sum over many tokens with a small result.

    The tokens are split into several parts that run at once. The library's kernel for this shape, made for
    larger results, leaves most of a GPU idle (H200, 4096 tokens, 2304 and 144 wide: 18 µs).
    """
    if a.is_cuda and b.size(1) > 32 and a.size(0) % PARTS == 0:
        return in_parts(a, b, PARTS)
    return a.t() @ b


def in_parts(a: Tensor, b: Tensor, parts: int) -> Tensor:
    """Return aᵀ·b as the sum of `parts` products over equally many tokens."""
    products = torch.bmm(a.unflatten(0, (parts, -1)).transpose(1, 2), b.unflatten(0, (parts, -1)))
    return products.sum(0)


def _shape_of_tall_product(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.size(1), b.size(1))


torch.library.define("weft::tall_product", "(Tensor a, Tensor b) -> Tensor")
torch.library.impl("weft::tall_product", "CompositeExplicitAutograd")(_tall_product)
torch.library.register_fake("weft::tall_product")(_shape_of_tall_product)

# a custom operation: the compiler would compute the second product separately, and the sum in a third pass
torch.library.define("weft::joined", "(Tensor x, Tensor weight, Tensor? bias, Tensor z, Tensor up) -> Tensor")
torch.library.impl("weft::joined", "CompositeExplicitAutograd")(_joined)
torch.library.register_fake("weft::joined")(_shape_of_joined)
