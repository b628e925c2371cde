"""Attention over short rows, a head of a row in tiles that hold all its keys, on a GPU.

A row of up to `LONGEST` tokens has so few scores that one block of threads holds them all:

    O = dropout(softmax(s·Q·Kᵀ + M))·V

forward and backward are one kernel each, the backward computes the scores anew, and nothing but Q, K, V and
the seed of its dropout is kept. Kernels that are made for long rows walk over tiles of keys, keep sums, and
take several launches for a backward.

Needs Triton, which torch brings along where it is built for CUDA; see `HERE`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from types import ModuleType

LONGEST = 128
"""Of a row's tokens: the scores of a head are then 64 KiB, a quarter of a multiprocessor's registers."""

SHORTEST = 16
"""A product of tiles takes no fewer rows; shorter ones are filled up."""

WIDTHS = (16, 32, 64, 128)
"""Of a head."""

LARGEST = 128 * 64
"""Numbers of a tile of keys: larger ones need more memory than most GPUs have for a block."""

SHARED = 96 * 1024
"""The bytes of such memory that a GPU must have; the backward of the largest tiles takes 80 KiB."""

MANY = 1 << 31
"""The numbers that are drawn for dropout are below it."""

HERE = find_spec("triton") is not None
"""Whether Triton is installed."""


def runs_on(device: torch.device) -> bool:
    """Whether a device runs the kernels: an NVIDIA GPU with products in bf16 and enough memory a block."""
    if device.type != "cuda" or not HERE or torch.version.hip is not None:
        return False
    found: Any = torch.cuda.get_device_properties(device)
    return bool(found.major >= 8 and getattr(found, "shared_memory_per_block_optin", 0) >= SHARED)


def fits(query: Tensor, key: Tensor, mask: Tensor | None) -> bool:
    """Whether these can be attended to in tiles: queries and keys [R, H, L, w], in half precision.

    Args:
        query: [R, H, L, w].
        key: likewise, of the same tokens.
        mask: what is added to the scores, [R or 1, 1, L or 1, L], if anything is; it may not learn.
    """
    half = query.dtype in (torch.bfloat16, torch.float16)
    alike = query.size(2) == key.size(2) and query.size(1) == key.size(1)
    short = query.size(3) in WIDTHS and query.size(2) <= min(LONGEST, LARGEST // query.size(3))
    return bool(query.is_cuda and half and alike and short) and _simple(mask)


def _simple(mask: Tensor | None) -> bool:
    if mask is None:
        return True
    return mask.dim() == 4 and mask.size(1) == 1 and mask.dtype != torch.bool and not mask.requires_grad


def new_key(device: torch.device) -> Tensor:
    """A key to draw dropout by, [2] int32."""
    return torch.empty(2, dtype=torch.int32, device=device).random_()


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    scale: float,
    seed: Tensor | None = None,
) -> Tensor:
    """Attention with gradients for queries, keys and values: [R, H, L, w] each → [R, L, H, w].

    Args:
        query: [R, H, L, w].
        key: [R, H, L, w].
        value: [R, H, L, w].
        mask: what is added to the scores, [R or 1, 1, L or 1, L], or none; no gradient is computed for it.
        dropout: the share of probabilities that is left out.
        scale: s.
        seed: of `new_key`; None: a new one, where it is needed.
    """
    seed = _seed(seed, dropout, query)
    found: Tensor = _Attend.apply(query, key, value, mask, seed, dropout, scale)
    return found


def attend_whole(
    whole: Tensor,
    width: int,
    mask: Tensor | None,
    dropout: float,
    scale: float,
    seed: Tensor | None = None,
) -> Tensor:
    """As `attend`, of queries, keys and values that are one product: [R, L, 3·H·w] → [R, L, H, w].

    Their gradient is one piece of memory then, as the product's backward wants it.
    """
    seed = _seed(seed, dropout, whole)
    found: Tensor = _AttendWhole.apply(whole, width, mask, seed, dropout, scale)
    return found


def _seed(given: Tensor | None, dropout: float, like: Tensor) -> Tensor:
    if given is not None:
        return given
    return new_key(like.device) if dropout > 0.0 else like.new_empty(2, dtype=torch.int32)


class _Attend(torch.autograd.Function):
    """`attend`; what was left out is drawn again from its seed."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        seed: Tensor,
        dropout: float,
        scale: float,
    ) -> Tensor:
        """O, [R, L, H, w]."""
        ctx.save_for_backward(query, key, value, mask, seed)
        ctx.settings = dropout, scale
        return torch.ops.weft.attend(query, key, value, mask, seed, dropout, scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of Q, K and V, [R, H, L, w] each."""
        whole = torch.ops.weft.attend_backward(grads[0], *ctx.saved_tensors, *ctx.settings)
        of_query, of_key, of_value = (one.transpose(1, 2) for one in whole.unbind(2))
        return of_query, of_key, of_value, None, None, None, None


class _AttendWhole(torch.autograd.Function):
    """`attend_whole`."""

    @staticmethod
    def forward(
        ctx: Any, whole: Tensor, width: int, mask: Tensor | None, seed: Tensor, dropout: float, scale: float
    ) -> Tensor:
        """O, [R, L, H, w]."""
        ctx.save_for_backward(whole, mask, seed)
        ctx.settings = width, dropout, scale
        return torch.ops.weft.attend(*_in_heads(whole, width), mask, seed, dropout, scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """That of the product, [R, L, 3·H·w]."""
        whole, mask, seed = ctx.saved_tensors
        width, dropout, scale = ctx.settings
        three = _in_heads(whole, width)
        found = torch.ops.weft.attend_backward(grads[0], *three, mask, seed, dropout, scale)
        return found.flatten(2), None, None, None, None, None


def _in_heads(whole: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """[R, L, 3·H·w] → queries, keys and values, [R, H, L, w] each."""
    rows, length, _ = whole.shape
    query, key, value = whole.view(rows, length, 3, -1, width).permute(2, 0, 3, 1, 4).unbind(0)
    return query, key, value


@cache
def _tiles() -> ModuleType:
    """The kernels; imported where they are needed, since Triton is not everywhere."""
    from weft.kernels import attention_triton as kernels_attention_tiles

    return kernels_attention_tiles


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    seed: Tensor,
    dropout: float,
    scale: float,
) -> Tensor:
    out = _shape_of_attend(query)
    with _told():
        _tiles().forward(query, key, value, mask, seed, out, dropout, scale)
    return out


def _attend_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    seed: Tensor,
    dropout: float,
    scale: float,
) -> Tensor:
    found = _shape_of_backward(grad, query)
    with _told():
        _tiles().backward(grad.contiguous(), query, key, value, mask, seed, found, dropout, scale)
    return found


@contextmanager
def _told() -> Iterator[None]:
    """Triton's errors as torch's, which engines know how to go on from."""
    try:
        yield
    except Exception as why:
        if type(why).__module__.partition(".")[0] != "triton":
            raise
        raise RuntimeError(f"attention in tiles: {why}") from why


def _shape_of_attend(query: Tensor, *rest: Any) -> Tensor:
    rows, heads, length, width = query.shape
    return query.new_empty(rows, length, heads, width)


def _shape_of_backward(grad: Tensor, query: Tensor, *rest: Any) -> Tensor:
    rows, heads, length, width = query.shape
    return query.new_empty(rows, length, 3, heads, width)


# operations of our own: a compiler takes them as they are
_GIVEN = "Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor seed, float dropout, float scale"
torch.library.define("weft::attend", f"({_GIVEN}) -> Tensor")
torch.library.impl("weft::attend", "CompositeExplicitAutograd")(_attend)
torch.library.register_fake("weft::attend")(_shape_of_attend)
torch.library.define("weft::attend_backward", f"(Tensor grad, {_GIVEN}) -> Tensor")
torch.library.impl("weft::attend_backward", "CompositeExplicitAutograd")(_attend_backward)
torch.library.register_fake("weft::attend_backward")(_shape_of_backward)
