"""The stand-in of the hub and a finished run, for all tests of this folder."""

from __future__ import annotations

import pytest

from tests.support.hub import stand_in
from tests.support.hub_client import address_to
from tests.support.tiny_run import write_run
from weft import cli


@pytest.fixture(scope="session")
def server():
    with stand_in() as hub:
        yield hub


@pytest.fixture
def hub(server, monkeypatch, tmp_path):
    """The server without repositories; this process is logged in as anna, with an empty cache."""
    address_to(monkeypatch, server.address, tmp_path / "home")
    server.clear()
    monkeypatch.chdir(tmp_path)
    return server


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """The folder of a short run, whose encoder is a folder beside it, and its token cache."""
    folder = tmp_path_factory.mktemp("private-place")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", str(folder / "cache"))
        file = write_run(folder, steps=4, evaluate_every=2, checkpoint_every=2)
        assert cli.run(["train", str(file), "--out", str(folder / "out"), "--quiet"]) == 0
    return folder / "out"
