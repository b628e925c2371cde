"""Keeps the residual stream in bf16 while a model trains in bf16."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from weft.acceleration.patch import Forwards
from weft.encoder.anatomy import anatomy_of

if TYPE_CHECKING:
    from weft.model.model import Model


class Bf16Norms(Forwards):
    """The encoder's layer norms, with results rounded to bf16.

    Autocast computes a norm in float32 and returns float32, so the residual stream takes twice the memory of
    what is added to it. The maps after a norm read it in bf16 anyway. If the result is rounded at once, only
    the residual loses bits, and each block's next norm normalizes it again. A pre-norm stream is never
    normalized and would lose more in each block, so pre-norm families are not patched.

    Args:
        model: the model.
    """

    def __init__(self, model: Model) -> None:
        post_norm = not anatomy_of(model.encoders[0]).pre_norm
        norms = [module for module in model.encoder.modules() if isinstance(module, nn.LayerNorm)]
        super().__init__((norm, _Rounded(norm.forward).forward) for norm in norms if post_norm)


class _Rounded:
    """A norm whose result is rounded."""

    def __init__(self, norm: Callable[[Tensor], Tensor]) -> None:
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        """norm(x) in bf16."""
        return self.norm(x).to(torch.bfloat16)
