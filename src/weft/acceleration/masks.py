"""Attention masks that a CUDA graph can compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask

from weft.utils.threads import WhileUsed

EAGER = "eager"


def eager_mask(*args: Any, dtype: torch.dtype = torch.float32, **kwargs: Any) -> Tensor | None:
    """Return the mask for eager attention, as Hugging Face does: 0 where allowed, else the lowest number.

    Hugging Face's version copies a zero from the host in every pass, which a graph cannot contain.
    """
    kwargs.pop("allow_is_causal_skip", None)
    allowed: Tensor | None = sdpa_mask(*args, allow_is_causal_skip=False, **kwargs)
    if allowed is None:
        return None
    return torch.zeros_like(allowed, dtype=dtype).masked_fill_(~allowed, torch.finfo(dtype).min)


def _exchange() -> Callable[[], object]:
    before = ALL_MASK_ATTENTION_FUNCTIONS[EAGER]
    ALL_MASK_ATTENTION_FUNCTIONS[EAGER] = eager_mask
    return lambda: ALL_MASK_ATTENTION_FUNCTIONS.__setitem__(EAGER, before)


capturable_masks = WhileUsed(_exchange)
"""A context in which masks for eager attention are computed on the device, with the same values."""
