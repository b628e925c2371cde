"""One adapter of weft around a linear map, beside PEFT's layer of the same kind around the same map."""

from __future__ import annotations

from typing import Any

import torch
from peft import get_peft_model
from torch import Tensor, nn

from weft.core.route import Route
from weft.encoder.sites import Site

TASKS = ("a", "b", "c")
WIDE, NARROW = 24, 16


def site_of(kind: str = "query") -> Site:
    """A map from 24 to 16, or the value of as many units that such a map reads."""
    return Site(kind, 0, WIDE, WIDE if kind == "ffn_hidden" else NARROW, "map")


class Holder(nn.Module):
    """A model with one map, for PEFT to find."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.map = linear

    def forward(self, x: Tensor, **more: Any) -> Tensor:
        y: Tensor = self.map(x, **more)
        return y


def map_of(seed: int = 3) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(WIDE, NARROW).requires_grad_(False)


def layer_of(config: Any, linear: nn.Linear) -> Any:
    """PEFT's model of the map with one adapter; its layer is `.base_model.model.map`."""
    return get_peft_model(Holder(linear), config).eval()


def rows_of(seed: int = 5, rows: int = 6) -> tuple[Tensor, Tensor, Route]:
    """x [R, 4, 24], a weight of each output [R, 4, 16], and the rows' tasks, mixed."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 4, WIDE, generator=generator)
    weight = torch.randn(rows, 4, NARROW, generator=generator)
    return x, weight, Route(torch.arange(rows) % len(TASKS))


def scrambled(module: nn.Module, seed: int = 1, by: float = 0.5) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * by)
