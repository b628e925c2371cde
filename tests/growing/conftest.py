"""Trained bundles to grow."""

from __future__ import annotations

import pytest
import torch

import weft
from tests.support.tiny import TASKS, scramble
from tests.support.tiny_run import save_encoder
from weft.training.optim.l0 import gates_of


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def make(encoder, tmp_path):
    """Write a bundle whose weights are far from their start; gates are taken out before."""

    def made(method, name="bundle", tasks=TASKS[:3], **settings):
        model = scramble(weft.Model(encoder, tasks, method, max_length=16, **settings), seed=len(name))
        with torch.no_grad():
            for parameter in model.encoder.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.01)  # a trained encoder is no longer the base
        return (model.compact() if gates_of(model) else model).save(tmp_path / name)

    return made
