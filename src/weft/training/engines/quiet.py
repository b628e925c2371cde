"""Contexts that run passes of a model in training without side effects on the training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd


@contextmanager
def without_trace(model: nn.Module) -> Iterator[None]:
    """Run passes inside; at the end, train/eval modes and random generators are restored."""
    device = next(model.parameters()).device
    modes = [(module, module.training) for module in model.modules()]
    host_state = torch.get_rng_state()
    cuda_state = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        torch.set_rng_state(host_state)
        if cuda_state is not None:
            torch.cuda.set_rng_state(cuda_state, device)


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """Inside, there is no dropout, not even in training mode.

    Dropout modules store their rate as `p`. Other modules, such as the attentions of Hugging Face, adapters
    and heads, store it as a number with a telling name (`attention_dropout`, `dropout`).
    """
    before: list[tuple[nn.Module, str, float]] = []
    for module in model.modules():
        attributes = vars(module)
        names = ["p"] if isinstance(module, _DropoutNd) else []
        names += [name for name, value in attributes.items() if "drop" in name and isinstance(value, float)]
        before += [(module, name, attributes[name]) for name in names]
    try:
        for module, name, _ in before:
            setattr(module, name, 0.0)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
