"""The engine `compiled`: eager steps with compiled encoder blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from weft.training.engines.eager import EagerEngine

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.training.settings import Training
    from weft.utils.processes import Processes


class CompiledEngine(EagerEngine):
    """Runs eager steps with compiled encoder blocks; nothing else differs from `EagerEngine`."""

    name = "compiled"
    compiles = True

    @classmethod
    def why_not(cls, model: Model, training: Training, processes: Processes) -> str | None:
        """See `Engine`."""
        if model.method.separate:
            return "method 'separate' has a different number of rows per task's encoder in every step"
        if training.conflict is not None:
            return "train.conflict runs each task separately, with a different number of rows in every step"
        if processes.world > 1 and training.parallel == "fsdp":
            return "fsdp gathers a block's weights outside the block, where nothing is compiled"
        return None

    @classmethod
    def priority(cls, device: torch.device) -> int | None:
        """See `Engine`: it runs only if requested by name."""
        return None
