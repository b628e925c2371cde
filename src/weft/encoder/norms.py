"""The norms of encoders, whatever their classes are called.

    layer norm:  y = w⊙x̂ + b,  x̂ = (x − mean(x)) / √(var(x) + ε)
    RMS norm:    y = w⊙x̂,      x̂ = x / √(mean(x²) + ε)

Some families have classes of their own for them: DeBERTa's first version a layer norm, EuroBERT an RMS norm.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

NORMS = (nn.LayerNorm, nn.RMSNorm)
"""The classes of torch."""


def is_norm(module: nn.Module) -> bool:
    """Return whether a module is a layer norm or an RMS norm over the last dimension, with a weight.

    Classes of transformers are recognized by their attributes, a vector `weight` and `variance_epsilon`.

    Example:
        >>> is_norm(nn.LayerNorm(4)), is_norm(nn.Identity())
        (True, False)
    """
    if isinstance(module, NORMS):
        return True
    weight = getattr(module, "weight", None)
    return isinstance(weight, nn.Parameter) and weight.dim() == 1 and hasattr(module, "variance_epsilon")


def normalized(x: Tensor, norm: Any) -> Tensor:
    """Return x̂ [..., d], the norm's input without its weight and bias.

    Args:
        x: the norm's input, [..., d].
        norm: a module for which `is_norm` holds.
    """
    if not _centers(norm):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + norm_eps(norm))).to(x.dtype)
    return F.layer_norm(x, (norm_width(norm),), eps=norm_eps(norm))


def norm_width(norm: Any) -> int:
    """Return d, the width of a norm."""
    return int(norm.normalized_shape[0] if isinstance(norm, NORMS) else norm.weight.numel())


def norm_eps(norm: Any) -> float:
    """Return ε of a norm."""
    eps = norm.eps if isinstance(norm, NORMS) else norm.variance_epsilon
    return torch.finfo(torch.float32).eps if eps is None else float(eps)  # the default of nn.RMSNorm


def _centers(norm: Any) -> bool:
    """Return whether a norm subtracts the mean: RMS norms do not, and have no bias."""
    return isinstance(norm, nn.LayerNorm) or (not isinstance(norm, nn.RMSNorm) and hasattr(norm, "bias"))
