from __future__ import annotations

import copy
import pickle
import threading

import pytest

from weft.core.route import RouteHolder
from weft.utils.threads import PerThread, RenewedLock


class Counter(PerThread):
    def __init__(self):
        self.count = 0


def in_another_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def pickled(one):
    return pickle.loads(pickle.dumps(one))


def test_each_thread_has_its_own():
    counter = Counter()
    counter.count = 3
    assert in_another_thread(lambda: counter.count) == 0
    assert counter.count == 3


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_copy_begins_anew(copied):
    holder = RouteHolder()
    holder.route = "a route"
    again = copied([holder, holder])
    assert again[0] is again[1]
    assert again[0] is not holder
    assert type(again[0]) is RouteHolder
    assert again[0].route is None
    assert holder.route == "a route"


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_copied_lock_is_a_new_one(copied):
    lock = RenewedLock()
    with lock, lock:  # re-entrant
        again = copied(lock)

        def take():
            with again:
                return True

        assert in_another_thread(take)


def test_a_lock_keeps_others_out():
    lock, order = RenewedLock(), []

    def take():
        with lock:
            order.append("second")

    with lock:
        thread = threading.Thread(target=take)
        thread.start()
        thread.join(0.05)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
