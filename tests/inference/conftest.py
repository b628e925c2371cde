import pytest

from weft.inference import captures


@pytest.fixture
def capturing(monkeypatch):
    """Captured passes on any device: on a CPU the same code runs over the same fixed memory, uncaptured."""

    def possible(model):
        return not model.method.separate and not model.is_bare

    monkeypatch.setattr(captures, "can_capture", possible)
