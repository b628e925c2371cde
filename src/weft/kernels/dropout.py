"""Dropout whose mask is a hash of a key and of the position: the same in compiled and uncompiled code."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from weft.kernels.attention import MANY

KEYS = "dropout_keys"
"""The attribute of a module that holds the pass's keys, [n, 2] int32, one key per dropout of the module."""


def drawn(like: Tensor, key: Tensor) -> Tensor:
    """Return a random number below 2³¹ for each position of a tensor: a hash of the position and of a key.

    The hash has three rounds of a product and a shift. After two rounds, numbers of positions that are a
    power of two apart are correlated (0.02). The constants are literals: a compiler treats named numbers as
    data.

    Args:
        like: a tensor of the result's shape; its values are not read.
        key: [2] int32.
    """
    x = torch.arange(like.numel(), dtype=torch.int32, device=like.device).view(like.shape) ^ key[0]
    x = (x ^ ((x >> 16) & 0xFFFF)) * 0x21F0AAAD
    x = x ^ key[1]
    x = (x ^ ((x >> 15) & 0x1FFFF)) * 0x735A2D97
    x = (x ^ ((x >> 15) & 0x1FFFF)) * 0x2C1B3C6D
    return (x >> 1) & 0x7FFFFFFF


def hashed(x: Tensor, p: float, key: Tensor) -> Tensor:
    """y = x ∘ m / (1 − p), with the mask m drawn by a hash, [...] → [...].

    Args:
        x: of any shape.
        p: the dropout probability, between 0 and 1.
        key: the key of this pass, [2] int32.
    """
    least = round(p * MANY)
    return torch.where(drawn(x, key) >= least, x * (MANY / (MANY - least)), 0.0)


def dropped(x: Tensor, p: float, module: Any, number: int = 0) -> Tensor:
    """Apply a module's dropout: by a hash if the module has keys for this pass, else by torch's generator.

    Several dropouts of one compiled graph draw from torch's generator in the order in which the compiler runs
    them, which need not be the order in the source. Keys are drawn before the graph runs, so compiled and
    uncompiled code drop the same entries.

    Args:
        x: of any shape.
        p: the dropout probability.
        module: the module that the dropout belongs to; dropout is active while it is in training mode.
        number: the index of this dropout within the module.
    """
    keys: Tensor | None = getattr(module, KEYS, None)
    if keys is None or not module.training or not 0.0 < p < 1.0:
        return F.dropout(x, p, module.training)
    return hashed(x, p, keys[number])
