"""The residual stream in bf16 while a model trains in bf16."""

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
    """The encoder's layer norms, their results rounded to bf16.

    Autocast computes a norm in float32 and leaves its result so, and the stream that the next residual adds
    to is twice as wide as all that is added. The maps after a norm read it in bf16 anyway; rounded at once,
    only the residual loses bits, and each block's next norm makes it of unit size again. A pre-norm stream is
    never normed, and would lose more in each block: such a family is left alone.

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
