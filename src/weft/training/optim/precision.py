"""The precision of a forward pass in training."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from weft.training.settings import Training


def precision(training: Training, device: torch.device) -> AbstractContextManager[object]:
    """Autocast to bf16 where it is wanted or, with `auto`, where there is a GPU that has it; else nothing."""
    return torch.autocast(device.type, torch.bfloat16) if is_bf16(training, device) else nullcontext()


def is_bf16(training: Training, device: torch.device) -> bool:
    """Whether steps run under autocast to bf16."""
    if training.precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported()
    return training.precision == "bf16"
