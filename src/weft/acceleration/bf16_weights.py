"""Keeps frozen linear maps in bf16 while a model trains in bf16."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from weft.model.model import Model


class Bf16Weights:
    """The encoder's frozen linear maps, rounded to bf16 once instead of in every step.

    Autocast rounds a map's weight and bias to bf16 at each use, so the results are bit-identical. Embeddings
    and norms, which autocast leaves in float32, are not changed. Evaluations and files use the float32
    weights, which are kept.

    Args:
        model: the model, on its device.
    """

    def __init__(self, model: Model) -> None:
        self._maps: list[tuple[nn.Parameter, Tensor, Tensor]] = []
        seen: set[int] = set()
        for module in model.encoder.modules():
            parameters = list(module.parameters(recurse=False)) if isinstance(module, nn.Linear) else []
            if not parameters or any(p.requires_grad for p in parameters):
                continue
            for parameter in parameters:
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
        """Restore the float32 weights."""
        for parameter, whole, _ in self._maps:
            parameter.data = whole
