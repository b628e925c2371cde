"""A stream of requests is answered in order, with a bounded number of requests in memory."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
from tests.support.every_kind import NAMES, rows_of_kind, task_of_kind
from tests.support.near import assert_near
from tests.support.tiny import scramble
from weft.errors import WeftError
from weft.inference import stream
from weft.inference.stream import Item, in_windows

REQUESTS = [(name, row) for name in NAMES for row in rows_of_kind(name, 2)]


@pytest.fixture(scope="module")
def model(folder):
    return scramble(weft.Model(folder, [task_of_kind(name) for name in NAMES], "lora", max_length=24))


class Echo:
    """Answers with the inputs themselves."""

    def __init__(self, waits=False):
        self.waits, self.sizes = waits, []

    def prepare(self, inputs):
        return list(inputs)

    def start(self, prepared):
        self.sizes.append(len(prepared))
        return prepared

    def finish(self, started):
        return [{"echo": x} for x in started]

    def characters(self, inputs):
        return inputs


ITEMS = st.lists(st.one_of(st.none(), st.just("bad"), st.integers(0, 9)), max_size=60)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ITEMS, st.booleans(), st.lists(st.integers(1, 7), min_size=1, max_size=3), st.integers(1, 40))
def test_order_for_any_mix_of_pauses_and_bad_items(monkeypatch, items, waits, sizes, characters):
    monkeypatch.setattr(stream, "SIZES", tuple(sizes))
    monkeypatch.setattr(stream, "CHARACTERS", characters)
    real = [(number, item) for number, item in enumerate(items) if item is not None]
    places = iter(real)
    given_items = (
        None if item is None else Item(next(places)[0], None if item == "bad" else item) for item in items
    )
    found = [pair for window in in_windows(given_items, Echo(waits)) for pair in window]
    assert found == [(number, None if item == "bad" else {"echo": item}) for number, item in real]


@pytest.mark.parametrize("waits", [False, True])
def test_memory_is_bounded(waits):
    """Over 300,000 requests, at most three windows have been read and not answered."""
    read, answered, most = itertools.count(), 0, 0
    produced = 0

    def items():
        nonlocal produced
        for _ in range(300_000):
            produced = next(read) + 1
            yield Item(None, 1)

    for window in in_windows(items(), Echo(waits)):
        most = max(most, produced - answered)
        answered += len(window)
    assert answered == 300_000
    assert most <= 3 * stream.SIZES[-1]


def test_a_pause_answers_everything_before_more_is_read():
    log = []

    def items():
        for number in range(3):
            yield Item(number, 1)
            yield None
            log.append(f"read on after {number}")

    for window in in_windows(items(), Echo(waits=True)):
        log += [f"answered {number}" for number, _ in window]
    expected = [(f"answered {n}", f"read on after {n}") for n in range(3)]
    assert log == list(itertools.chain(*expected))


def test_long_texts_make_short_windows():
    echo = Echo()
    list(in_windows((Item(None, stream.CHARACTERS // 2) for _ in range(7)), echo))
    assert echo.sizes == [2, 2, 2, 1]


def test_an_error_comes_after_the_answers_before_it(monkeypatch):
    monkeypatch.setattr(stream, "SIZES", (4,))

    def items():
        yield from (Item(number, number) for number in range(10))
        raise WeftError("line 11")

    found = []
    with pytest.raises(WeftError, match="line 11"):
        found.extend(payload for window in in_windows(items(), Echo()) for payload, _ in window)
    assert found == list(range(10))


def test_the_answers_are_those_of_predict(model, monkeypatch):
    monkeypatch.setattr(stream, "SIZES", (2, 5))
    assert_near(list(model.predict_stream(iter(REQUESTS))), model.predict(REQUESTS), 1e-5)
    assert list(model.predict_stream([])) == []


def test_it_is_lazy_and_names_a_wrong_request(model, monkeypatch):
    monkeypatch.setattr(stream, "SIZES", (4,))
    endless = model.predict_stream(itertools.cycle(REQUESTS))
    assert_near(list(itertools.islice(endless, 9)), model.predict(REQUESTS[:9]), 1e-5)
    endless.close()
    found = []
    with pytest.raises(WeftError, match="request 7: task 'zebra' is not in this model"):
        found.extend(model.predict_stream([*REQUESTS[:6], ("zebra", "x"), *REQUESTS[:6]]))
    assert len(found) == 6


def test_streams_of_several_threads_keep_their_answers(model, monkeypatch):
    monkeypatch.setattr(stream, "SIZES", (2, 3, 8))
    threads = 6
    shares = [REQUESTS[first:] + REQUESTS[:first] for first in range(threads)]
    expected = [model.predict(share) for share in shares]
    barrier = threading.Barrier(threads)

    def work(share):
        barrier.wait()
        return list(model.predict_stream(iter(share)))

    with ThreadPoolExecutor(threads) as pool:
        for found, right in zip(pool.map(work, shares), expected, strict=True):
            assert_near(found, right, 1e-5)
