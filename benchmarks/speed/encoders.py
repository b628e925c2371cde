"""The encoders that are measured, and the bare one that weft is compared with."""

from __future__ import annotations

import copy
import dataclasses
from functools import lru_cache
from typing import Any

import torch
from torch import nn

import weft
from weft.encoder.load import Encoder, weights_sha256
from weft.encoder.packages import PACKAGES

BERT_BASE = "random:bert-base"
"""BERT-base's shape; speed does not depend on what the weights are."""


def minilm(folder: str | None) -> str:
    """MiniLM from a folder, from the installed package, or else its shape with random weights."""
    if folder is not None:
        return folder
    return "minilm" if PACKAGES["minilm"].folder("minilm") is not None else "random:minilm"


@lru_cache
def _loaded(name: str) -> Encoder:
    encoder = weft.load_encoder(name)
    encoder.sha256 = encoder.sha256 or weights_sha256(encoder.model)
    return encoder


def fresh(name: str, device: torch.device) -> Encoder:
    """A copy of an encoder without adapters: it is loaded, initialized and hashed only once."""
    encoder = _loaded(name)
    return dataclasses.replace(encoder, model=copy.deepcopy(encoder.model).to(device))


def bare(name: str, device: torch.device) -> Any:
    """The encoder alone, ready for inference.

    On a GPU the weights of its linear maps are bf16 already: under autocast that gives the same numbers as
    casting them in each pass, and spares the encoder that cost. It is the stronger thing to compare with.
    """
    model = fresh(name, device).model.eval().requires_grad_(False)
    if device.type == "cuda":
        for module in model.modules():
            if isinstance(module, nn.Linear):
                module.to(torch.bfloat16)
    return model
