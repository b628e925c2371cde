"""Attention over short rows on a GPU: one thread block holds all keys of a head of a row.

A row of up to `LONGEST` tokens has so few scores that one block of threads holds them all:

    O = dropout(softmax(s·Q·Kᵀ + M))·V

Forward and backward are one kernel each. The backward recomputes the scores, and only Q, K, V and the seed of
the dropout are stored. Kernels made for long rows walk over tiles of keys, keep running sums, and need
several launches for a backward.

This needs Triton, which torch installs with its CUDA builds; see `HERE`.
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
"""The most tokens of a row: the scores of a head then take 64 KiB, a quarter of an SM's registers."""

SHORTEST = 16
"""The smallest tile of a product, in rows; shorter rows are padded."""

WIDTHS = (16, 32, 64, 128)
"""Supported widths of a head."""

LARGEST = 128 * 64
"""The most elements of a tile of keys: larger tiles need more shared memory than most GPUs have per block."""

SHARED = 96 * 1024
"""Bytes of shared memory per block that a GPU must have; the backward of the largest tiles takes 80 KiB."""

MANY = 1 << 31
"""Exclusive upper bound of the random numbers that are drawn for dropout."""

HERE = find_spec("triton") is not None
"""Whether Triton is installed."""


def runs_on(device: torch.device) -> bool:
    """Return whether a device can run the kernels: an NVIDIA GPU with bf16 and enough shared memory."""
    if device.type != "cuda" or not HERE or torch.version.hip is not None:
        return False
    properties: Any = torch.cuda.get_device_properties(device)
    return bool(properties.major >= 8 and getattr(properties, "shared_memory_per_block_optin", 0) >= SHARED)


def fits(query: Tensor, key: Tensor, mask: Tensor | None) -> bool:
    """Return whether the kernels support these tensors: queries and keys [R, H, L, w], in half precision.

    Args:
        query: [R, H, L, w].
        key: [R, H, L, w], of the same tokens.
        mask: what is added to the scores, [R or 1, 1, L or 1, L], or None; it must not need a gradient.
    """
    half = query.dtype in (torch.bfloat16, torch.float16)
    same_shape = query.size(2) == key.size(2) and query.size(1) == key.size(1)
    short = query.size(3) in WIDTHS and query.size(2) <= min(LONGEST, LARGEST // query.size(3))
    return bool(query.is_cuda and half and same_shape and short) and _simple(mask)


def _simple(mask: Tensor | None) -> bool:
    if mask is None:
        return True
    return mask.dim() == 4 and mask.size(1) == 1 and mask.dtype != torch.bool and not mask.requires_grad


def new_key(device: torch.device) -> Tensor:
    """Draw a key for dropout, [2] int32."""
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
    """Compute attention with gradients for queries, keys and values: [R, H, L, w] each → [R, L, H, w].

    Args:
        query: [R, H, L, w].
        key: [R, H, L, w].
        value: [R, H, L, w].
        mask: what is added to the scores, [R or 1, 1, L or 1, L], or None; no gradient is computed for it.
        dropout: the dropout probability of the attention weights.
        scale: s.
        seed: from `new_key`; None: a new one is drawn if dropout is not 0.
    """
    seed = _seed(seed, dropout, query)
    attended: Tensor = _Attend.apply(query, key, value, mask, seed, dropout, scale)
    return attended


def attend_whole(
    whole: Tensor,
    width: int,
    mask: Tensor | None,
    dropout: float,
    scale: float,
    seed: Tensor | None = None,
) -> Tensor:
    """Like `attend`, for queries, keys and values in one tensor: [R, L, 3·H·w] → [R, L, H, w].

    Their gradient is then one contiguous tensor, as the backward of the fused projection needs it.
    """
    seed = _seed(seed, dropout, whole)
    attended: Tensor = _AttendWhole.apply(whole, width, mask, seed, dropout, scale)
    return attended


def _seed(seed: Tensor | None, dropout: float, like: Tensor) -> Tensor:
    if seed is not None:
        return seed
    return new_key(like.device) if dropout > 0.0 else like.new_empty(2, dtype=torch.int32)


class _Attend(torch.autograd.Function):
    """`attend`; the backward draws the dropout mask again from its seed."""

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
        of_query, of_key, of_value = (grad.transpose(1, 2) for grad in whole.unbind(2))
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
        """The gradient of `whole`, [R, L, 3·H·w]."""
        whole, mask, seed = ctx.saved_tensors
        width, dropout, scale = ctx.settings
        three = _in_heads(whole, width)
        whole_grad = torch.ops.weft.attend_backward(grads[0], *three, mask, seed, dropout, scale)
        return whole_grad.flatten(2), None, None, None, None, None


def _in_heads(whole: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Split [R, L, 3·H·w] into queries, keys and values, [R, H, L, w] each."""
    rows, length, _ = whole.shape
    query, key, value = whole.view(rows, length, 3, -1, width).permute(2, 0, 3, 1, 4).unbind(0)
    return query, key, value


@cache
def _tiles() -> ModuleType:
    """Import the kernels when they are needed: Triton is not installed everywhere."""
    from weft.kernels import attention_triton

    return attention_triton


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
    with _triton_errors():
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
    input_grads = _shape_of_backward(grad, query)
    with _triton_errors():
        _tiles().backward(grad.contiguous(), query, key, value, mask, seed, input_grads, dropout, scale)
    return input_grads


@contextmanager
def _triton_errors() -> Iterator[None]:
    """Raise Triton's errors as torch's `RuntimeError`, from which engines fall back to eager."""
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


# custom operations: a compiler does not look inside them
_ARGUMENTS = "Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor seed, float dropout, float scale"
torch.library.define("weft::attend", f"({_ARGUMENTS}) -> Tensor")
torch.library.impl("weft::attend", "CompositeExplicitAutograd")(_attend)
torch.library.register_fake("weft::attend")(_shape_of_attend)
torch.library.define("weft::attend_backward", f"(Tensor grad, {_ARGUMENTS}) -> Tensor")
torch.library.impl("weft::attend_backward", "CompositeExplicitAutograd")(_attend_backward)
torch.library.register_fake("weft::attend_backward")(_shape_of_backward)
