"""Attention that skips padding and tokens outside the window, by torch's FlashAttention for varying lengths.

transformers runs ModernBERT without padding by the package flash_attn alone (`flash_attention_2` or later);
with `sdpa` it makes a mask [R, 1, L, L] and computes every score, also in the two of three blocks that attend
to 128 neighbours. But torch has the kernel too, and transformers lets a caller register attention functions.
Here the "mask" is the list of where segments begin,

    0 ≤ s₁ ≤ … ≤ R·L,    tokens attend to those of their own segment,

so that the tokens of R rows need no mask. Rows padded on the right are 2·R segments: the tokens and the
padding of each. Rows packed one after another are R segments, and there is no padding at all.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface

VARLEN = "benchmark_varlen"
"""The name of the attention implementation."""
FLASH = "flash_attention_2"


def segments(padding: Tensor) -> Tensor:
    """Where the segments of padded rows begin, and the end: [R, L] of bool → [2·R + 1] of int32."""
    rows, length = padding.shape
    first = torch.arange(rows, device=padding.device) * length
    both = torch.stack([first, first + padding.sum(1)], 1).flatten()
    return torch.cat([both, both.new_full((1,), rows * length)]).int()


def mask(*_: Any, attention_mask: Tensor | None = None, **__: Any) -> Tensor | None:
    """The segments instead of a mask; None if no row has padding."""
    return None if attention_mask is None else segments(attention_mask.bool())


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    cu_seq_lens_q: Tensor | None = None,
    max_length_q: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Hugging Face's attention over segments: [R, H, L, w] each → [R, L, H, w]; no dropout.

    Args:
        module: the attention.
        query: [R, H, L, w].
        key: [R, H, L, w].
        value: [R, H, L, w].
        attention_mask: of `mask`.
        scaling: the factor of the scores.
        sliding_window: tokens further away than this minus 1 are not attended to; None: all are.
        cu_seq_lens_q: the segments of packed rows, which a caller passes to the encoder.
        max_length_q: the most tokens of one of them.
    """
    rows, heads, length, width = query.shape
    starts = attention_mask if cu_seq_lens_q is None else cu_seq_lens_q
    if starts is None:
        starts = torch.arange(rows + 1, device=query.device, dtype=torch.int32) * length
    flat = [x.transpose(1, 2).reshape(rows * length, heads, width) for x in (query, key, value)]
    reach = -1 if sliding_window is None else sliding_window - 1
    attended = _attend(*flat, starts, max_length_q or length, reach, scaling)
    return attended.view(rows, length, heads, width), None


def _attend(
    query: Tensor, key: Tensor, value: Tensor, starts: Tensor, longest: int, reach: int, scale: float | None
) -> Tensor:
    """[T, H, w] each → [T, H, w]; on a CPU, which lacks the kernel, with a mask of all pairs."""
    if query.is_cuda:
        half = [
            x if x.dtype in (torch.bfloat16, torch.float16) else x.bfloat16() for x in (query, key, value)
        ]
        window = {} if reach < 0 else {"window_size_left": reach, "window_size_right": reach}
        flash: Any = torch.ops.aten._flash_attention_forward
        return flash(*half, starts, starts, longest, longest, 0.0, False, False, scale=scale, **window)[0]
    at = torch.arange(len(query))
    segment = torch.searchsorted(starts[1:].long(), at, right=True)
    allowed = segment[:, None] == segment
    if reach >= 0:
        allowed &= (at[:, None] - at).abs() <= reach
    by_head = (x.transpose(0, 1) for x in (query, key, value))
    return scaled_dot_product_attention(*by_head, attn_mask=allowed, scale=scale).transpose(0, 1)


AttentionInterface.register(VARLEN, attention)
AttentionMaskInterface.register(VARLEN, mask)


def set_attention(encoder: nn.Module, name: str) -> None:
    """Choose the attention of an encoder, woven or not."""
    for module in encoder.modules():
        if (config := getattr(module, "config", None)) is not None:
            config._attn_implementation = name


def packed(rows: list[Tensor]) -> dict[str, Any]:
    """The inputs of rows one after another, without padding: ids and positions [1, T], and the segments.

    Args:
        rows: the token ids of each row, on the device.
    """
    lengths = torch.tensor([len(row) for row in rows])
    ends = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
    starts = ends.to(torch.int32).to(rows[0].device)
    positions = torch.cat([torch.arange(int(length)) for length in lengths]).to(rows[0].device)
    longest = int(lengths.max())
    return {
        "input_ids": torch.cat(rows)[None],
        "position_ids": positions[None],
        "cu_seq_lens_q": starts,
        "cu_seq_lens_k": starts,
        "max_length_q": longest,
        "max_length_k": longest,
    }


def why_not_flash() -> str | None:
    """Why transformers cannot run `flash_attention_2` here; None: it can."""
    from transformers.utils import is_flash_attn_2_available

    if is_flash_attn_2_available():
        return None
    if importlib.util.find_spec("flash_attn") is None:
        return "not available: it needs the package flash_attn and a GPU; flash_attn is not installed"
    return "not available: flash_attn is installed, and transformers cannot use it on this machine"
