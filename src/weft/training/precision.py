"""The precision of a forward pass in training."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from weft.training.settings import Training


def precision(training: Training, device: torch.device) -> AbstractContextManager[object]:
    """Autocast to bf16 where it is wanted or, with `auto`, where there is a GPU that has it; else nothing."""
    cuda = device.type == "cuda"
    if training.precision == "bf16" or (
        training.precision == "auto" and cuda and torch.cuda.is_bf16_supported()
    ):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()
