"""Bundles to put together."""

from __future__ import annotations

import pytest

import weft
from tests.support.apart import LORA
from tests.support.tiny import scramble
from tests.support.tiny_run import save_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def make(encoder, tmp_path):
    """Write a bundle whose weights are far from their start."""

    def made(name, tasks, method=LORA, **settings):
        source = settings.pop("encoder", encoder)
        seed = len(list(tmp_path.iterdir()))
        return scramble(weft.Model(source, tasks, method, **settings), seed).save(tmp_path / name)

    return made
