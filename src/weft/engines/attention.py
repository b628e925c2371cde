"""The attention kernel that is fastest for a length, on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import bidirectional_mask_function, sdpa_mask
from transformers.models.bert.modeling_bert import BertSelfAttention

from weft.encoder.weave import BY_LENGTH
from weft.engines.dropout import key_of
from weft.engines.fused import MAPS, InThree
from weft.kernels_attention import LONGEST, attend, attend_whole, fits

TOGETHER = "together"
"""Where a self-attention has what computes its queries, keys and values as one."""

SHORT = 64
"""The length up to which the memory-efficient kernel is taken where torch takes cuDNN's.

H200, bf16, 12 heads of 64, a mask, dropout 0.1, ms for forward and backward of 12 layers: 32 rows of 32
tokens 0.35 against 0.69, 288 of 64 3.6 against 5.5, 32 of 128 1.39 against 1.15."""


def attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **more: Any
) -> tuple[Tensor, None]:
    """Hugging Face's attention: [R, H, L, d/H] each → [R, L, H, d/H].

    In tiles where they fit, of queries, keys and values as one if they are; else by torch's
    `scaled_dot_product_attention`.
    """
    together = getattr(module, TOGETHER, None)
    whole = None if together is None else together.latest
    if together is not None:
        together.latest = None
    plain = not (more.get("is_causal") or getattr(module, "is_causal", False) or more.get("position_bias"))
    if plain and fits(query, key, attention_mask):
        scale = more.get("scaling") or query.size(-1) ** -0.5
        settings = (attention_mask, more.get("dropout", 0.0), scale, key_of(getattr(module, "dropout", None)))
        if whole is not None:
            return attend_whole(whole, query.size(-1), *settings), None
        return attend(query, key, value, *settings), None
    run: Callable[..., tuple[Tensor, None]] = sdpa_attention_forward
    # a mask that learns is taken by the memory-efficient kernel alone: whatever the length, it is one graph
    learns = attention_mask is not None and attention_mask.requires_grad
    if not learns and key.size(2) > SHORT:
        return run(module, query, key, value, attention_mask, **more)
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        return run(module, query, key, value, attention_mask, **more)


def mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """Hugging Face's mask as what is added to the scores, once for all blocks: torch makes it one in each.

    [R, 1, L, L]; where all tokens see the same, a row's queries share the memory of one.
    """
    allowed: Tensor | None
    given, length = kwargs.get("attention_mask"), kwargs.get("kv_length", 0)
    whole = kwargs.get("mask_function") is bidirectional_mask_function and kwargs.get("q_length") == length
    if whole and given is not None and given.shape[1:] == (length,) and length <= LONGEST:
        allowed = given[:, None, None].bool().expand(-1, -1, length, -1)
    else:
        allowed = sdpa_mask(*args, **kwargs)
    if allowed is None:
        return None
    device = allowed.device.type
    own = kwargs.get("dtype", torch.float32)
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else own
    seen = allowed[:, :, :1] if allowed.stride(2) == 0 else allowed
    return torch.zeros_like(seen, dtype=dtype).masked_fill(~seen, -torch.inf).expand(allowed.shape)


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
        self._together = [(m, one) for m in encoder.modules() if (one := _together(m)) is not None]
        self.on()

    def on(self) -> None:
        """By length."""
        for config in self._configs:
            config._attn_implementation = BY_LENGTH
        for module, together in self._together:
            module.__dict__[TOGETHER] = together

    def remove(self) -> None:
        """As torch chooses."""
        for config in self._configs:
            config._attn_implementation = "sdpa"
        for module, _ in self._together:
            module.__dict__.pop(TOGETHER, None)


def _together(module: nn.Module) -> InThree | None:
    """What computes a self-attention's queries, keys and values, where they go to `attention` as they are.

    That is known where its forward is BERT's, operation by operation: others turn or scale them.
    """
    maps = [getattr(module, name, None) for name in MAPS]
    forwards = [getattr(one, "__dict__", {}).get("forward") for one in maps]
    found, *others = (getattr(forward, "__self__", None) for forward in forwards)
    if not isinstance(found, InThree) or any(other is not found for other in others):
        return None
    codes: list[Any] = [one.forward.__code__ for one in (type(module), BertSelfAttention)]
    own, known = ((code.co_code, code.co_names, code.co_consts) for code in codes)
    return found if own == known else None
