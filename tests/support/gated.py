"""Models whose L0 gates are decided: some components are shut, and all of the first adapter's."""

from __future__ import annotations

from typing import Any

import torch

from tests.support.tiny import build, scramble
from weft.adapters.gate import OPEN, SHUT
from weft.model.model import Model
from weft.training.optim.l0 import gates_of

GATED: dict[str, Any] = {
    "morris": {"use": "morris", "rank": 6, "bias_rank": 3, "biases": "all", "l0": True},
    "morris-tucker": {"use": "morris", "rank": 5, "core": "tucker", "task_rank": 3, "l0": True},
    "lora": {"use": "lora", "rank": 4, "alpha": 7, "l0": True},
    "lora-groups": {"use": "lora", "rank": 4, "share": {"g": ["a", "c"]}, "l0": True},
    "lora_bitfit": {"use": "lora_bitfit", "rank": 3, "l0": True},
    "lora_bitfit_mtl": {"use": "lora_bitfit_mtl", "rank": 5, "l0": True},
    "two parts": [{"use": "lora", "rank": 2, "l0": True}, "bitfit", {"use": "morris", "rank": 4, "l0": True}],
    "a part without": [{"use": "lora", "rank": 2}, {"use": "morris", "rank": 4, "l0": True}],
}


def shut(model: Model, seed: int, share: float = 0.6) -> Model:
    """Shut a share of the gates, and all of the first adapter's."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for number, gate in enumerate(gates_of(model)):
            closed = torch.rand(gate.alpha.shape, generator=generator) < (1.1 if number == 0 else share)
            gate.alpha.copy_(torch.where(closed, SHUT, OPEN))
    return model


def gated(method: str, family: str = "bert", seed: int = 1, share: float = 0.6) -> Model:
    """A model of `GATED` with scrambled weights and decided gates."""
    return shut(scramble(build(family, GATED[method])), seed, share)
