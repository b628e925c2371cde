from __future__ import annotations

import pytest

from weft.registry import Registry


@pytest.fixture(autouse=True)
def registrations(monkeypatch):
    """What a test registers is gone after it."""
    added: list[tuple[Registry, str]] = []
    register = Registry.register

    def noted(self, name, entry):
        register(self, name, entry)
        added.append((self, name))

    monkeypatch.setattr(Registry, "register", noted)
    yield added
    for registry, name in added:
        del registry._entries[name]
