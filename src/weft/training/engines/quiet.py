"""Looking at a model in training without leaving a trace in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd


@contextmanager
def without_trace(model: nn.Module) -> Iterator[None]:
    """Inside, passes may be run; then modes and the states of all random numbers are as before."""
    device = next(model.parameters()).device
    modes = [(module, module.training) for module in model.modules()]
    host = torch.get_rng_state()
    own = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        torch.set_rng_state(host)
        if own is not None:
            torch.cuda.set_rng_state(own, device)


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """Inside, nothing is dropped out, in training mode as well.

    Dropout modules have their share as `p`. Others, the attentions of Hugging Face and adapters and heads
    among them, have it as a number whose name says so (`attention_dropout`, `dropout`).
    """
    before: list[tuple[nn.Module, str, float]] = []
    for module in model.modules():
        own = vars(module)
        names = ["p"] if isinstance(module, _DropoutNd) else []
        names += [name for name, value in own.items() if "drop" in name and isinstance(value, float)]
        before += [(module, name, own[name]) for name in names]
    try:
        for module, name, _ in before:
            setattr(module, name, 0.0)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
