"""Compiled pieces that compute something else than they should, and what is reported of a fallback."""

from __future__ import annotations

import json

from tests.support.engines import Uncompiled


class Wrong(Uncompiled):
    """In the place of `Compiled`: pieces that compute something else."""

    piece = "example_losses"

    def __init__(self, model):
        self.model = model
        self.apply()

    def apply(self):
        own = getattr(type(self.model), self.piece).__get__(self.model)
        self.model.__dict__[self.piece] = lambda *args: self.changed(own(*args), *args)

    def undo(self):
        self.model.__dict__.pop(self.piece, None)

    def uncompiled(self):
        return _Off(self)

    def changed(self, found, *args):
        raise NotImplementedError


class _Off:
    """What `with compiled.uncompiled()` enters."""

    def __init__(self, patch):
        self.patch = patch

    def __enter__(self):
        self.patch.undo()

    def __exit__(self, *error):
        self.patch.apply()


class Scaled(Wrong):
    """Losses that are 5 % too large."""

    def changed(self, found, *args):
        return 1.05 * found


def fell_back(log, folder, engine, err):
    """What is said of a fallback: shown, in the log twice, and in metrics.json; returns the event."""
    (event,) = [line for line in log if line["event"] == "engine"]
    assert (event["from"], event["to"]) == (engine, "eager")
    assert f"train.engine {engine}: {event['why']}; the run continues with eager" in err
    expected = {"from": engine, "step": event["step"], "why": event["why"]}
    metrics = json.loads((folder / "metrics.json").read_text())
    for told in (log[-1], metrics):
        assert (told["engine"], told["engine_fallback"]) == ("eager", expected)
    rows, length = event["shape"]
    assert f"on {rows} rows of {length} tokens" in event["why"]
    return event
