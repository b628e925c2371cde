"""Frozen maps in bf16 while a model trains in bf16."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from weft.model.model import Model


class Bf16Weights:
    """The encoder's linear maps that do not train, rounded to bf16 once instead of in every step.

    Autocast rounds a map's weight and bias to bf16 wherever it is used, so that the results are the same to
    the last bit; embeddings and norms, which it leaves in float32, are left alone. Evaluations and files see
    the float32 weights, which stay where they are.

    Args:
        model: the model, on its device.
    """

    def __init__(self, model: Model) -> None:
        self._maps: list[tuple[nn.Parameter, Tensor, Tensor]] = []
        seen: set[int] = set()
        for module in model.encoder.modules():
            own = list(module.parameters(recurse=False)) if isinstance(module, nn.Linear) else []
            if not own or any(p.requires_grad for p in own):
                continue
            for parameter in own:
                if id(parameter) not in seen and parameter.dtype == torch.float32:
                    seen.add(id(parameter))
                    self._maps.append((parameter, parameter.data, parameter.data.to(torch.bfloat16)))
        self.apply()

    def __len__(self) -> int:
        return len(self._maps)

    def apply(self) -> None:
        """Train with the rounded weights."""
        for parameter, _, rounded in self._maps:
            parameter.data = rounded

    def undo(self) -> None:
        """Put the float32 weights back for good."""
        for parameter, whole, _ in self._maps:
            parameter.data = whole
