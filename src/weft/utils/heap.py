"""The memory that the C library keeps for this process, if it is glibc; elsewhere nothing is done."""

from __future__ import annotations

import ctypes
import threading
from contextlib import suppress

ARENA_MAX = -8
"""M_ARENA_MAX of glibc's malloc.h."""
SECONDS = 2.0
"""How often memory is given back: it takes about 10 ms, in which a thread may have to wait for memory. Under
load, `weft serve` takes about 40 MB more with every second that passes without it."""


def limit_heaps(count: int) -> None:
    """Let all threads that start from now on share some heaps; each has its own by default.

    Tensors of many sizes come and go in several threads, and every heap keeps its gaps.

    Args:
        count: how many heaps there are at most.
    """
    with suppress(OSError, AttributeError, TypeError):  # TypeError: Windows
        ctypes.CDLL(None).mallopt(ARENA_MAX, count)


def give_back() -> None:
    """Give the gaps between what is in use back to the operating system."""
    with suppress(OSError, AttributeError, TypeError):  # TypeError: Windows
        ctypes.CDLL(None).malloc_trim(0)


class GiveBack:
    """Calls `give_back` every few seconds, in a thread of its own, until it is closed.

    Args:
        seconds: how often.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds, self._closed = seconds, threading.Event()
        self._thread = threading.Thread(target=self._run, name="weft-memory", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(self._seconds):
            give_back()
