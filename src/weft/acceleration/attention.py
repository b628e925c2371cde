"""Chooses the fastest attention kernel for a length, on a GPU."""

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

from weft.acceleration.fused_qkv import MAPS, FusedQkv
from weft.acceleration.hashed_dropout import key_of
from weft.encoder.weave import BY_LENGTH, IN_TILES, TOGETHER
from weft.kernels.attention import LONGEST, attend, attend_whole, fits, runs_on

SHORT = 64
"""The length up to which the memory-efficient kernel is used instead of cuDNN's, which torch would choose.

H200, bf16, 12 heads of 64, a mask, dropout 0.1, ms for forward and backward of 12 layers: 32 rows of 32
tokens 0.35 against 0.69, 288 of 64 3.6 against 5.5, 32 of 128 1.39 against 1.15."""


def attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **more: Any
) -> tuple[Tensor, None]:
    """Hugging Face's attention by `scaled_dot_product_attention`: [R, H, L, d/H] each → [R, L, H, d/H]."""
    run: Callable[..., tuple[Tensor, None]] = sdpa_attention_forward
    # only the memory-efficient kernel supports a trainable mask, so one graph serves every length
    learns = attention_mask is not None and attention_mask.requires_grad
    if not learns and key.size(2) > SHORT:
        return run(module, query, key, value, attention_mask, **more)
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        return run(module, query, key, value, attention_mask, **more)


def attention_in_tiles(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **more: Any
) -> tuple[Tensor, None]:
    """Like `attention`, by `weft.kernels.attention` where it fits; q, k and v may be one fused tensor."""
    together = getattr(module, TOGETHER, None)
    whole = None if together is None else together.latest
    if together is not None:
        together.latest = None
    causal = more.get("is_causal") or getattr(module, "is_causal", False)
    if causal or more.get("position_bias") is not None or not fits(query, key, attention_mask):
        return attention(module, query, key, value, attention_mask, **more)
    scale = more.get("scaling") or query.size(-1) ** -0.5
    settings = (attention_mask, more.get("dropout", 0.0), scale, key_of(getattr(module, "dropout", None)))
    if whole is not None:
        return attend_whole(whole, query.size(-1), *settings), None
    return attend(query, key, value, *settings), None


def mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """Return Hugging Face's mask as a term of the scores, once for all blocks (torch would do it in each)."""
    allowed: Tensor | None = sdpa_mask(*args, **kwargs)
    return None if allowed is None else _added(allowed, **kwargs)


def mask_in_tiles(*args: Any, **kwargs: Any) -> Tensor | None:
    """Like `mask`, [R, 1, L, L]; if only padding is masked, all queries of a row share one query's memory."""
    padding, length = kwargs.get("attention_mask"), kwargs.get("kv_length", 0)
    whole = kwargs.get("mask_function") is bidirectional_mask_function and kwargs.get("q_length") == length
    if whole and padding is not None and padding.shape[1:] == (length,) and length <= LONGEST:
        return _added(padding[:, None, None].bool(), **kwargs).expand(-1, -1, length, -1)
    return mask(*args, **kwargs)


def _added(allowed: Tensor, dtype: torch.dtype = torch.float32, **kwargs: Any) -> Tensor:
    """Return 0 where attention is allowed, else −∞, in the dtype of the scores."""
    device = allowed.device.type
    autocast = torch.is_autocast_enabled(device)
    score_dtype = torch.get_autocast_dtype(device) if autocast else dtype
    return torch.zeros_like(allowed, dtype=score_dtype).masked_fill(~allowed, -torch.inf)


AttentionInterface.register(BY_LENGTH, attention)
AttentionMaskInterface.register(BY_LENGTH, mask)
AttentionInterface.register(IN_TILES, attention_in_tiles)
AttentionMaskInterface.register(IN_TILES, mask_in_tiles)


class AttentionByLength:
    """Chooses an encoder's attention kernel by length; an attention other than `sdpa` is not changed.

    Args:
        encoder: a Hugging Face encoder.
    """

    def __init__(self, encoder: nn.Module) -> None:
        configs = {id(c): c for m in encoder.modules() if (c := getattr(m, "config", None)) is not None}
        self._configs = [c for c in configs.values() if getattr(c, "_attn_implementation", None) == "sdpa"]
        self._together = [(m, fused) for m in encoder.modules() if (fused := _together(m)) is not None]
        self._name = IN_TILES if runs_on(next(encoder.parameters()).device) else BY_LENGTH
        self.apply()

    def apply(self) -> None:
        """Choose the kernel by length."""
        for config in self._configs:
            config._attn_implementation = self._name
        for module, together in self._together:
            module.__dict__[TOGETHER] = together

    def undo(self) -> None:
        """Let torch choose the kernel."""
        for config in self._configs:
            config._attn_implementation = "sdpa"
        for module, together in self._together:
            module.__dict__.pop(TOGETHER, None)
            together.latest = None  # it may be left over from a pass that failed


def _together(module: nn.Module) -> FusedQkv | None:
    """Return the fused projection of a self-attention, if its results are passed to `attention` unchanged.

    This is known only if its forward has the same bytecode as BERT's: others may rotate or scale them.
    """
    maps = [getattr(module, name, None) for name in MAPS]
    forwards = [getattr(linear, "__dict__", {}).get("forward") for linear in maps]
    fused, *others = (getattr(forward, "__self__", None) for forward in forwards)
    if not isinstance(fused, FusedQkv) or any(other is not fused for other in others):
        return None
    codes: list[Any] = [attention.forward.__code__ for attention in (type(module), BertSelfAttention)]
    module_code, bert_code = ((code.co_code, code.co_names, code.co_consts) for code in codes)
    return fused if module_code == bert_code else None
