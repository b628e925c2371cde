"""The floating-point precision of forward passes in training."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from weft.training.settings import Training


def precision(training: Training, device: torch.device) -> AbstractContextManager[object]:
    """Autocast to bf16 if configured or, with `auto`, if the GPU supports it; else a null context."""
    return torch.autocast(device.type, torch.bfloat16) if is_bf16(training, device) else nullcontext()


def is_bf16(training: Training, device: torch.device) -> bool:
    """Whether steps run under autocast to bf16."""
    if training.precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported()
    return training.precision == "bf16"
