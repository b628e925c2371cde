"""An encoder as a model takes it: in float32, and woven into no other."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from weft.encoder.load import Encoder, as_encoder
from weft.encoder.weave import is_woven
from weft.errors import WeftError


def weavable(encoder: str | Path | Encoder | nn.Module, *, seed: int, device: str | None) -> Encoder:
    """What `as_encoder` gives, or an error that says why it cannot be woven.

    Args:
        encoder: what `load_encoder` takes, what it gives, or a Hugging Face encoder.
        seed: of the weights of `random:` encoders.
        device: where to put it.
    """
    found = as_encoder(encoder, seed=seed, device=device)
    odd = [p.dtype for p in found.model.parameters() if p.dtype != torch.float32]
    if odd:
        raise WeftError(f"the encoder's weights are {odd[0]}; expected torch.float32: call .float() on it")
    if is_woven(found.model):
        raise WeftError("this encoder is woven into a model already; load it anew, or pass a copy of it bare")
    return found
