"""Prefetching: background threads prepare the next steps while the present one runs."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from weft.errors import WeftError

T = TypeVar("T")


class Ahead(Generic[T]):
    """make(first), make(first + 1), …, up to `stop`, computed in background threads before they are needed.

    With one thread, `make` is called for one number after another, never concurrently and never by the
    thread that takes: what it uses (a `Plan`, which caches the present window of batches) belongs to that
    thread as long as this is open. With several threads `make` must be thread-safe; its results are still
    taken in order. If the plan changes (a task stops), close this and create a new one that begins at the
    next step.

    The threads end when this is closed or garbage-collected; they never keep a process, or this, alive.

    Args:
        make: computes the value of a number.
        first: the first number.
        stop: the number after the last.
        ahead: how many values may wait to be taken; 0: no thread, each is computed when it is taken.
        threads: the number of threads.

    Attributes:
        waited: the seconds that `take` had to wait; with `ahead` 0, the seconds spent in `make`.
    """

    def __init__(
        self, make: Callable[[int], T], first: int, stop: int, ahead: int = 8, threads: int = 1
    ) -> None:
        if ahead < 0 or threads < 1:
            raise WeftError(f"expected ahead of 0 or more, and one thread or more; found {ahead}, {threads}")
        self.waited = 0.0
        self._make, self._next, self._stop = make, first, stop
        self._shared: _Shared[T] = _Shared(first, stop, ahead)
        self._threads = [
            threading.Thread(target=_work, args=(weakref.ref(self), self._shared), daemon=True)
            for _ in range(min(threads, ahead))
        ]
        # a waiting thread refers only to the shared state, so that this object can be garbage-collected
        weakref.finalize(self, self._shared.close)
        for thread in self._threads:
            thread.start()

    def take(self, number: int) -> T:
        """The value of the next number; an error raised by `make` is raised here."""
        if number != self._next or number >= self._stop:
            raise WeftError(
                f"expected number {self._next}, below {self._stop}: they are taken in order; found {number}"
            )
        began = time.perf_counter()
        try:
            value = self._shared.take(number) if self._threads else self._make(number)
        finally:
            self.waited += time.perf_counter() - began
        self._next += 1
        return value

    def close(self) -> None:
        """End the threads and drop values that were not taken. Closing again does nothing."""
        self._shared.close()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Ahead[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Shared(Generic[T]):
    """The state that the threads and the consumer share: which numbers are ready, and whether to continue."""

    def __init__(self, first: int, stop: int, ahead: int) -> None:
        self._changed = threading.Condition()
        self._made: dict[int, T] = {}
        self._failed: dict[int, BaseException] = {}
        self._next, self._taken, self._stop, self._ahead = first, first, stop, ahead
        self._closed = False

    def claim(self) -> int | None:
        """Wait until there is room, then return the next number to compute; None: there is none left."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._next >= self._stop or self._next < self._taken + self._ahead
            )
            if self._closed or self._next >= self._stop:
                return None
            self._next += 1
            return self._next - 1

    def put(self, number: int, value: T) -> None:
        """Store the value of a number."""
        with self._changed:
            if not self._closed:
                self._made[number] = value
                self._changed.notify_all()

    def fail(self, number: int, error: BaseException) -> None:
        """Store the error of a number; no later number is begun."""
        with self._changed:
            self._failed[number] = error
            self._stop = self._next
            self._changed.notify_all()

    def take(self, number: int) -> T:
        """Wait for the value of a number, and make room for another."""
        with self._changed:
            self._changed.wait_for(lambda: number in self._made or number in self._failed or self._closed)
            if number in self._made:
                self._taken = number + 1
                self._changed.notify_all()
                return self._made.pop(number)
            if number in self._failed:
                raise self._failed[number]
            raise WeftError(f"number {number} was never prepared: prefetching is closed")

    def close(self) -> None:
        """Let every thread end."""
        with self._changed:
            self._closed = True
            self._made.clear()
            self._changed.notify_all()


def _work(owner: weakref.ref[Ahead[T]], shared: _Shared[T]) -> None:
    while (number := shared.claim()) is not None:
        ahead = owner()
        if ahead is None:
            return
        try:
            value = ahead._make(number)
        except BaseException as error:
            shared.fail(number, error)
            return
        shared.put(number, value)
        del ahead, value  # not while it waits
