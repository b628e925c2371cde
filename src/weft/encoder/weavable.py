"""Checks that an encoder can be woven into a model: it is in float32, and not part of another model."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from weft.encoder.load import Encoder, as_encoder
from weft.encoder.weave import is_woven
from weft.errors import WeftError


def weavable(encoder: str | Path | Encoder | nn.Module, *, seed: int, device: str | None) -> Encoder:
    """Return the result of `as_encoder`, or raise an error that says why it cannot be woven.

    Args:
        encoder: an argument or a result of `load_encoder`, or a Hugging Face encoder.
        seed: the random seed of the weights of `random:` encoders.
        device: the device to put it on.
    """
    loaded = as_encoder(encoder, seed=seed, device=device)
    wrong_dtypes = [p.dtype for p in loaded.model.parameters() if p.dtype != torch.float32]
    if wrong_dtypes:
        raise WeftError(
            f"the encoder's weights are {wrong_dtypes[0]}; expected torch.float32: call .float() on it"
        )
    if is_woven(loaded.model):
        raise WeftError(
            "this encoder is already woven into a model; load it again, or pass a copy of the plain encoder"
        )
    return loaded
