"""Memory that is free is given back, again and again until the end."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from weft.utils.heap import GiveBack

GAPS = """
import sys
from weft.utils.heap import give_back, limit_heaps

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

limit_heaps(2)
blocks = [bytearray(100_000) for _ in range(2000)]
kept = blocks[::20]
del blocks
before = resident()
give_back()
print(before - resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_gaps_between_what_is_in_use_are_given_back():
    done = subprocess.run([sys.executable, "-c", GAPS], capture_output=True, text=True, check=True)
    assert float(done.stdout) > 100  # of 190 MB that are free


def test_it_is_done_again_and_again_until_the_end(monkeypatch):
    calls, third = [], threading.Event()

    def note():
        calls.append(1)
        if len(calls) == 3:
            third.set()

    monkeypatch.setattr("weft.utils.heap.give_back", note)
    running = GiveBack(0.001)
    assert third.wait(10)
    running.close()
    count = len(calls)
    assert not running._thread.is_alive()
    assert len(calls) == count
