"""What is made ahead comes in order, fails where it is taken, and leaves nothing behind."""

from __future__ import annotations

import gc
import threading
import time
import traceback
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from weft.errors import WeftError
from weft.training.step.prefetch import Ahead


@settings(max_examples=examples(20))
@given(st.integers(0, 5), st.integers(1, 3), st.integers(0, 20), st.integers(0, 4))
def test_all_come_in_order(ahead, threads, count, first):
    made = []

    def make(number):
        time.sleep(0.0005 * (number % 3))
        made.append(number)
        return number * number

    with Ahead(make, first, first + count, ahead, threads) as found:
        for number in range(first, first + count):
            assert found.take(number) == number * number
            assert max(made) <= number + ahead  # no more than may wait
        with pytest.raises(WeftError, match="taken in order"):
            found.take(first + count)
    assert sorted(made) == list(range(first, first + count))
    assert found.waited >= 0


@pytest.mark.parametrize("ahead", [0, 3])
def test_an_error_is_raised_where_it_is_taken(ahead):
    def make_badly(number):
        if number == 2:
            raise KeyError("two")
        return number

    with Ahead(make_badly, 0, 9, ahead) as found:
        assert [found.take(0), found.take(1)] == [0, 1]
        for _ in range(2):  # and again: what failed once is not made anew by another
            with pytest.raises(KeyError, match="two") as raised:
                found.take(2)
            assert "make_badly" in [frame.name for frame in traceback.extract_tb(raised.tb)]
        with pytest.raises(WeftError, match="expected number 2"):
            found.take(3)


def test_threads_end():
    before = threading.active_count()
    found = Ahead(lambda number: number, 0, 1000, threads=2)
    assert found.take(0) == 0
    assert threading.active_count() == before + 2
    found.close()
    found.close()
    assert threading.active_count() == before
    with pytest.raises(WeftError, match="closed"):
        found.take(1)


def test_forgotten_with_its_owner_it_ends():
    """As a run that breaks off: whoever owns it is what `make` works on, and nobody closes it."""

    class Run:
        def __init__(self):
            self.ahead = Ahead(self.make, 0, 1000)

        def make(self, number):
            return number

    before = threading.active_count()
    run = Run()
    assert run.ahead.take(0) == 0
    threads, gone = run.ahead._threads, weakref.ref(run)
    del run
    for _ in range(100):
        gc.collect()
        if gone() is None:
            break
        time.sleep(0.01)
    assert gone() is None
    for thread in threads:
        thread.join(5)
    assert threading.active_count() == before


def test_what_cannot_be():
    with pytest.raises(WeftError, match="one thread or more; found 1, 0"):
        Ahead(lambda number: number, 0, 1, 1, 0)
