"""Dropout drawn by a hash: a function of a key and of the place alone, compiled or not."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from weft.kernels.attention import MANY

KEYS = "dropout_keys"
"""Where a module that drops out finds the keys of the pass, [n, 2] int32, one for each of its dropouts."""


def drawn(like: Tensor, key: Tensor) -> Tensor:
    """A random number below 2³¹ for each place of a tensor, in its shape: a hash of the place and of a key.

    Three rounds of a product and a shift: after two, numbers of places that are a power of two apart know of
    each other (a correlation of 0.02). Numbers are written out: a compiler takes names of numbers for data.

    Args:
        like: any; its values are not read.
        key: [2] int32.
    """
    x = torch.arange(like.numel(), dtype=torch.int32, device=like.device).view(like.shape) ^ key[0]
    x = (x ^ ((x >> 16) & 0xFFFF)) * 0x21F0AAAD
    x = x ^ key[1]
    x = (x ^ ((x >> 15) & 0x1FFFF)) * 0x735A2D97
    x = (x ^ ((x >> 15) & 0x1FFFF)) * 0x2C1B3C6D
    return (x >> 1) & 0x7FFFFFFF


def hashed(x: Tensor, p: float, key: Tensor) -> Tensor:
    """y = x ∘ m / (1 − p), m drawn by a hash, [...] → [...].

    Args:
        x: of any shape.
        p: the share that is left out, between 0 and 1.
        key: of the pass, [2] int32.
    """
    least = round(p * MANY)
    return torch.where(drawn(x, key) >= least, x * (MANY / (MANY - least)), 0.0)


def dropped(x: Tensor, p: float, module: Any, number: int = 0) -> Tensor:
    """Dropout of a module's own: by a hash where the pass has keys for it, else as torch draws.

    Several dropouts of one compiled graph draw from torch's generator in the order in which the compiler runs
    them, which need not be the order in which they are written. Keys are drawn before the graph runs, so that
    compiled and uncompiled code leave out the same.

    Args:
        x: of any shape.
        p: the share that is left out.
        module: whose dropout it is; it drops out while it trains.
        number: which of the module's dropouts it is.
    """
    keys: Tensor | None = getattr(module, KEYS, None)
    if keys is None or not module.training or not 0.0 < p < 1.0:
        return F.dropout(x, p, module.training)
    return hashed(x, p, keys[number])
