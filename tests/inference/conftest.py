import pytest

from tests.support.tiny_run import save_encoder
from weft.inference import captures


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A saved tiny encoder."""
    return save_encoder(tmp_path_factory.mktemp("captured") / "encoder")


@pytest.fixture
def capturing(monkeypatch):
    """Captured passes on any device: on a CPU the same code runs over the same fixed memory, uncaptured."""

    def possible(model):
        return not model.method.separate and not model.is_bare

    monkeypatch.setattr(captures, "can_capture", possible)
