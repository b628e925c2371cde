"""Making what the next steps need while the present one runs."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from weft.errors import WeftError

T = TypeVar("T")


class Ahead(Generic[T]):
    """make(first), make(first + 1), …, up to `stop`, made by other threads before they are asked for.

    With one thread, `make` is called for one number after another, never twice at once and never by the
    thread that takes: what it uses (a `Plan`, which keeps the window of batches at hand) belongs to that
    thread as long as this is open. With several threads `make` must bear being called by all of them; what it
    gives still comes in order. Where a plan changes on the way (a task stops), close this and make another
    that begins at the next step.

    The threads end when this is closed or forgotten; they never keep a process, or this, alive.

    Args:
        make: of a number.
        first: the first number.
        stop: the one after the last.
        ahead: how many may wait to be taken; 0: no thread, each is made when it is taken.
        threads: how many make them.

    Attributes:
        waited: the seconds that `take` had to wait; with `ahead` 0, those it took to make everything.
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
        # a thread that waits knows what is shared and nothing else, so that this can be forgotten
        weakref.finalize(self, self._shared.close)
        for thread in self._threads:
            thread.start()

    def take(self, number: int) -> T:
        """What was made of the next number; an error in making it is raised here, as it was there."""
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
        """End the threads; what they made and nobody took is dropped. Closing again does nothing."""
        self._shared.close()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Ahead[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Shared(Generic[T]):
    """What the threads and the one who takes both know: which numbers are made, and whether to go on."""

    def __init__(self, first: int, stop: int, ahead: int) -> None:
        self._changed = threading.Condition()
        self._made: dict[int, T] = {}
        self._failed: dict[int, BaseException] = {}
        self._next, self._taken, self._stop, self._ahead = first, first, stop, ahead
        self._closed = False

    def claim(self) -> int | None:
        """The next number to make, once there is room for it; None: there is nothing more to do."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._next >= self._stop or self._next < self._taken + self._ahead
            )
            if self._closed or self._next >= self._stop:
                return None
            self._next += 1
            return self._next - 1

    def put(self, number: int, value: T) -> None:
        """A number is made."""
        with self._changed:
            if not self._closed:
                self._made[number] = value
                self._changed.notify_all()

    def fail(self, number: int, error: BaseException) -> None:
        """A number cannot be made: none after it is begun."""
        with self._changed:
            self._failed[number] = error
            self._stop = self._next
            self._changed.notify_all()

    def take(self, number: int) -> T:
        """Wait for a number, and make room for another."""
        with self._changed:
            self._changed.wait_for(lambda: number in self._made or number in self._failed or self._closed)
            if number in self._made:
                self._taken = number + 1
                self._changed.notify_all()
                return self._made.pop(number)
            if number in self._failed:
                raise self._failed[number]
            raise WeftError(f"number {number} was never made: what makes it is closed")

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
