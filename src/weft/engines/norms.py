"""The residual stream in bf16 while a model trains in bf16."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weft.encoder.anatomy import anatomy_of

if TYPE_CHECKING:
    from weft.model import Model


class RoundedNorms:
    """The encoder's layer norms, their results rounded to bf16.

    Autocast computes a norm in float32 and leaves its result so, and the stream that the next residual adds
    to is twice as wide as all that is added. The maps after a norm read it in bf16 anyway; rounded at once,
    only the residual loses bits, and each block's next norm makes it of unit size again. A pre-norm stream is
    never normed, and would lose more in each block: such a family is left alone.

    Args:
        model: the model.
    """

    def __init__(self, model: Model) -> None:
        self._norms: list[tuple[nn.Module, Any, Callable[[Tensor], Tensor]]] = []
        if not anatomy_of(model.encoders[0]).pre_norm:
            for module in model.encoder.modules():
                if isinstance(module, nn.LayerNorm):
                    own = module.__dict__.get("forward")
                    self._norms.append((module, own, _Rounded(module.forward).forward))
        self.on()

    def on(self) -> None:
        """Round."""
        for module, _, rounded in self._norms:
            module.__dict__["forward"] = rounded

    def remove(self) -> None:
        """Leave the results as they are."""
        for module, own, _ in self._norms:
            if own is None:
                module.__dict__.pop("forward", None)
            else:
                module.__dict__["forward"] = own


class _Rounded:
    """A norm whose result is rounded."""

    def __init__(self, norm: Callable[[Tensor], Tensor]) -> None:
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        """norm(x) in bf16."""
        return self.norm(x).to(torch.bfloat16)
