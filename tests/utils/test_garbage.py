"""What lives as long as the process is left out of collections, and is collected once it is garbage."""

from __future__ import annotations

import gc
import weakref

import pytest

from weft.utils.garbage import settle


class Ring:
    def __init__(self):
        self.itself = self


@pytest.fixture(autouse=True)
def _collector():
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


@pytest.mark.slow
def test_later_collections_look_only_at_newer_objects():
    kept = Ring()
    settle()
    assert gc.get_freeze_count() > 0
    assert not any(thing is kept for thing in gc.get_objects())


@pytest.mark.slow
def test_what_was_left_out_is_collected_by_the_next_call():
    ring = Ring()
    settle()
    gone = weakref.ref(ring)
    del ring
    gc.collect()
    assert gone() is not None  # left out of collections, so its cycle stays
    settle()
    assert gone() is None
