"""The attention kernel that is fastest for a length, on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from weft.encoder.weave import BY_LENGTH

SHORT = 64
"""The length up to which the memory-efficient kernel is taken where torch takes cuDNN's.

H200, bf16, 12 heads of 64, a mask, dropout 0.1, ms for forward and backward of 12 layers: 32 rows of 32
tokens 0.35 against 0.69, 288 of 64 3.6 against 5.5, 32 of 128 1.39 against 1.15."""


def attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **more: Any
) -> tuple[Tensor, None]:
    """Hugging Face's attention by `scaled_dot_product_attention`: [R, H, L, d/H] each → [R, L, H, d/H]."""
    run: Callable[..., tuple[Tensor, None]] = sdpa_attention_forward
    if key.size(2) > SHORT:
        return run(module, query, key, value, attention_mask, **more)
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        return run(module, query, key, value, attention_mask, **more)


def mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """Hugging Face's mask as what is added to the scores, once for all blocks: torch makes it one in each."""
    allowed: Tensor | None = sdpa_mask(*args, **kwargs)
    if allowed is None:
        return None
    device = allowed.device.type
    own = kwargs.get("dtype", torch.float32)
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else own
    return torch.zeros_like(allowed, dtype=dtype).masked_fill(~allowed, -torch.inf)


AttentionInterface.register(BY_LENGTH, attention)
AttentionMaskInterface.register(BY_LENGTH, mask)


class AttentionByLength:
    """An encoder whose attention is `attention`; one that has another than `sdpa` is left alone.

    Args:
        encoder: a Hugging Face encoder.
    """

    def __init__(self, encoder: nn.Module) -> None:
        found = {id(c): c for m in encoder.modules() if (c := getattr(m, "config", None)) is not None}
        self._configs = [c for c in found.values() if getattr(c, "_attn_implementation", None) == "sdpa"]
        self.on()

    def on(self) -> None:
        """By length."""
        for config in self._configs:
            config._attn_implementation = BY_LENGTH

    def remove(self) -> None:
        """As torch chooses."""
        for config in self._configs:
            config._attn_implementation = "sdpa"
