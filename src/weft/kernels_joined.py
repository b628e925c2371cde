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

from weft.kernels import choose
from weft.kernels_rows import compute_dtype

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
    x = x.to(dtype)
    placed = [(number, one) for number, part in enumerate(terms) for one in part]
    placed.sort(key=lambda found: found[1].down is None)  # those that read x come first
    z = _components(x, [one for _, one in placed])
    up = torch.cat([_in_rows(one.up, number, len(terms)) for number, one in placed], 1).to(dtype)
    fill = -z.size(-1) % ALIGNED
    if fill:
        z, up = F.pad(z, (0, fill)), F.pad(up, (0, fill))
    weight, bias = weight.to(dtype), None if bias is None else bias.to(dtype)
    y: Tensor = _Joined.apply(x.flatten(0, 1), weight, bias, z.flatten(0, 1), up)
    return y.unflatten(0, x.shape[:2])


def _components(x: Tensor, all_of: Sequence[Components]) -> Tensor:
    """z, [R, L, K]: of the terms that read x, then of those that do not."""
    rows, length, _ = x.shape
    reading = [one for one in all_of if one.down is not None]
    others = [one for one in all_of if one.down is None]
    found = []
    if reading:
        low = F.linear(x, torch.cat([one.down for one in reading if one.down is not None]).to(x.dtype))
        found.append(low * _kept(reading, rows)[:, None].to(x.dtype))
    if others:
        found.append(_kept(others, rows)[:, None].to(x.dtype).expand(rows, length, -1))
    return torch.cat(found, -1) if len(found) > 1 else found[0]


def _kept(terms: Sequence[Components], rows: int) -> Tensor:
    """[R, K], or [1, K] if all rows keep alike."""
    alike = all(one.keep.size(0) == 1 for one in terms)
    return torch.cat([one.keep if alike else one.keep.expand(rows, -1) for one in terms], 1)


def _in_rows(up: Tensor, number: int, parts: int) -> Tensor:
    """[o, k] → [P·o, k], zero in the rows of the other maps."""
    width = up.size(0)
    return F.pad(up, (0, 0, number * width, (parts - 1 - number) * width))


class _Joined(torch.autograd.Function):
    """y = x·Wᵀ + b + z·Uᵀ with gradients of x, z and U: [N, i], [O, i], [O], [N, K], [O, K] → [N, O]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, z: Tensor, up: Tensor) -> Tensor:
        """One product, and one onto it."""
        ctx.save_for_backward(weight, z, up)
        y: Tensor = torch.ops.weft.joined(x, weight, bias, z, up)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, None, None, Tensor | None, Tensor | None]:
        """G·W, G·U and Gᵀ·z."""
        weight, z, up = ctx.saved_tensors
        grad = grads[0]
        of_x = grad @ weight if ctx.needs_input_grad[0] else None
        of_z = grad @ up if ctx.needs_input_grad[3] else None
        of_up = torch.ops.weft.tall_product(grad, z) if ctx.needs_input_grad[4] else None
        return of_x, None, None, of_z, of_up


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
