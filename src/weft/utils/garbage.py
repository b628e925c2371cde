"""Keeps Python's garbage collector away from objects that live as long as the process."""

from __future__ import annotations

import gc

YOUNG = 10_000
"""New objects between two collections of the youngest generation; Python's own default is 700 or 2,000."""


def settle() -> None:
    """Collect garbage now, then leave out of later collections what is still there.

    A process that has imported torch and transformers holds about a million objects. A full collection looks
    at all of them, which takes up to a second, and a server that makes many small objects per request runs
    many of them: they were half of its processor time. Call it again when large objects have been replaced:
    what was left out before is collected then.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    _, middle, old = gc.get_threshold()
    gc.set_threshold(YOUNG, middle, old)
