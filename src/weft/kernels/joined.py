"""Low-rank terms of maps that read one input, as one further product onto the maps' own.

A term of few components is written as

    term = z·upᵀ,  z = (x·downᵀ) ∘ keep,  or z = keep where it does not read x

LoRA's rows keep the components of their own slot, MORRIS' multiply all by their task's coefficients, and a
bias by task is a component for each slot, of which a row keeps its own. Maps of one input are joined with all
their terms: y = x·Wᵀ + b + z·Uᵀ, W the maps one upon the other, U the ups, each in its map's rows and zero in
those of the others. Three products give what each map and each term by itself would take a dozen for.
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
"""Rows of bf16 that begin at multiples of 16 bytes are read in whole words: z is filled up with zeros."""

PARTS = 8
"""Into how many a product over all tokens is cut."""


class Components(NamedTuple):
    """A term of a linear map by its components.

    Attributes:
        keep: what each row multiplies them by, [R, k], or [1, k] if all do alike.
        up: [o, k].
        down: [k, i]; None where the term does not read x.
    """

    keep: Tensor
    up: Tensor
    down: Tensor | None = None


def joins(slots: int, rank: int, width: int, device: torch.device) -> bool:
    """Whether a term with so many components for each of its slots is cheapest with all of them side by side.

    Args:
        slots: S.
        rank: the components of a slot.
        width: of the map's input.
        device: where it runs.
    """
    found = choose(slots, rank, width, device=device.type, half=True, trains=True, ordered=False)
    return found == "side"


def own_slot(slot: Tensor, slots: int, dtype: torch.dtype) -> Tensor:
    """1 where a row uses a slot, else 0, [R, S]."""
    return (slot[:, None] == torch.arange(slots, device=slot.device)).to(dtype)


def joined_linear(
    x: Tensor, weight: Tensor, bias: Tensor | None, terms: Sequence[Sequence[Components]]
) -> Tensor:
    """Several maps of one input and all their terms: [R, L, i] → [R, L, P·o].

    Args:
        x: [R, L, i].
        weight: the P maps, one upon the other, [P·o, i]; no gradient is computed for it.
        bias: [P·o], or none; likewise.
        terms: of each map, P times; at least one term in all.
    """
    dtype = compute_dtype(x)
    rows, x = x.size(0), x.to(dtype)
    placed = [(number, one) for number, part in enumerate(terms) for one in part]
    placed.sort(key=lambda found: found[1].down is None)  # those that read x come first
    keep = torch.cat([one.keep.expand(rows, -1) for _, one in placed], 1).to(dtype)
    up = torch.cat([_in_rows(one.up, number, len(terms)) for number, one in placed], 1).to(dtype)
    fill = -up.size(1) % ALIGNED
    if fill:
        keep, up = F.pad(keep, (0, fill)), F.pad(up, (0, fill))
    downs = [one.down for _, one in placed if one.down is not None]
    down = torch.cat(downs).to(dtype) if downs else None
    y: Tensor = _Joined.apply(x, weight.to(dtype), None if bias is None else bias.to(dtype), down, keep, up)
    return y


def _in_rows(up: Tensor, number: int, parts: int) -> Tensor:
    """[o, k] → [P·o, k], zero in the rows of the other maps."""
    width = up.size(0)
    return F.pad(up, (0, 0, number * width, (parts - 1 - number) * width))


class _Joined(torch.autograd.Function):
    """y = x·Wᵀ + b + z·Uᵀ, z = [(x·downᵀ) ∘ keep, keep]: [R, L, i] → [R, L, O].

    The first k of K components read x. With gradients of x, down [k, i], keep [R, K] and up [O, K].
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
        """One product, and one onto it."""
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
        """G·W and what comes back through z onto it; of z, G·U; of U, Gᵀ·z."""
        x, weight, down, keep, up, z, low = ctx.saved_tensors
        of_input, _, _, of_down, of_keep, of_up = ctx.needs_input_grad
        rows, length, _ = x.shape
        grad = grads[0].flatten(0, 1)
        reading = 0 if down is None else down.size(0)
        needed = of_keep or (reading and (of_input or of_down))
        back = (grad @ up).unflatten(0, (rows, length)) if needed else None
        found: list[Tensor | None] = [None] * 6
        read = None
        if reading and back is not None:
            read = (back[..., :reading] * keep[:, None, :reading]).flatten(0, 1)
        if of_input and read is not None:
            found[0] = torch.ops.weft.joined(grad, weight.t(), None, read, down.t()).view_as(x)
        elif of_input:
            found[0] = (grad @ weight).view_as(x)
        if of_down and read is not None:
            found[3] = torch.ops.weft.tall_product(read, x.flatten(0, 1))
        if of_keep and back is not None:
            sums = [] if low is None else [(back[..., :reading] * low).sum(1)]
            if keep.size(1) > reading:
                sums.append(back[..., reading:].sum(1))
            found[4] = torch.cat(sums, 1)
        if of_up:
            found[5] = torch.ops.weft.tall_product(grad, z.flatten(0, 1))
        return tuple(found)


def _joined(x: Tensor, weight: Tensor, bias: Tensor | None, z: Tensor, up: Tensor) -> Tensor:
    y = x @ weight.t() if bias is None else torch.addmm(bias, x, weight.t())
    return y.addmm_(z, up.t())


def _shape_of_joined(x: Tensor, weight: Tensor, bias: Tensor | None, z: Tensor, up: Tensor) -> Tensor:
    return x.new_empty(x.size(0), weight.size(0))


def _tall_product(a: Tensor, b: Tensor) -> Tensor:
    """aᵀ·b, [N, o] and [N, k] → [o, k]: many tokens to few numbers.

    By several parts of the tokens at once: a library's own way for such a shape, made for more numbers,
    leaves most of a GPU without work (H200, 4096 tokens, 2304 and 144 wide: 18 µs).
    """
    if a.is_cuda and b.size(1) > 32 and a.size(0) % PARTS == 0:
        return in_parts(a, b, PARTS)
    return a.t() @ b


def in_parts(a: Tensor, b: Tensor, parts: int) -> Tensor:
    """aᵀ·b as the sum of so many products of as many tokens each."""
    of_parts = torch.bmm(a.unflatten(0, (parts, -1)).transpose(1, 2), b.unflatten(0, (parts, -1)))
    return of_parts.sum(0)


def _shape_of_tall_product(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.size(1), b.size(1))


torch.library.define("weft::tall_product", "(Tensor a, Tensor b) -> Tensor")
torch.library.impl("weft::tall_product", "CompositeExplicitAutograd")(_tall_product)
torch.library.register_fake("weft::tall_product")(_shape_of_tall_product)

# an operation of our own: the compiler would make the second product one by itself, and the sum a third pass
torch.library.define("weft::joined", "(Tensor x, Tensor weight, Tensor? bias, Tensor z, Tensor up) -> Tensor")
torch.library.impl("weft::joined", "CompositeExplicitAutograd")(_joined)
torch.library.register_fake("weft::joined")(_shape_of_joined)
