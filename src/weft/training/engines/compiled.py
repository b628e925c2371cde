"""A step by the host, with the encoder's blocks compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from weft.training.engines.eager import EagerEngine

if TYPE_CHECKING:
    from weft.model.model import Model
    from weft.training.settings import Training
    from weft.utils.processes import Processes


class CompiledEngine(EagerEngine):
    """The eager step, whose blocks are compiled; nothing of the step itself differs."""

    name = "compiled"
    compiles = True

    @classmethod
    def why_not(cls, model: Model, training: Training, processes: Processes) -> str | None:
        """See `Engine`."""
        if model.method.separate:
            return "method 'separate' sends other numbers of rows through each task's encoder every step"
        if training.conflict is not None:
            return "train.conflict runs each task by itself, with other numbers of rows every step"
        if processes.world > 1 and training.parallel == "fsdp":
            return "fsdp gathers a block's weights outside the block, where nothing is compiled"
        return None

    @classmethod
    def priority(cls, device: torch.device) -> int | None:
        """See `Engine`: it runs where it is named."""
        return None
