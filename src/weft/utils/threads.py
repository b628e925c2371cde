"""Thread-local state, and a lock that a copy of its owner does not share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from weft.utils.forks import renew_after_fork


class PerThread(threading.local):
    """An object with thread-local attributes; `__init__` runs once in every thread.

    It is a `threading.local` and not a `contextvars.ContextVar`, which the compiler cannot trace. A copy or
    an unpickled object starts from `__init__`: the state of a running thread is not copied.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)()

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


class RenewedLock:
    """A re-entrant lock; a copy of it, or an unpickled one, is a new lock that nobody holds.

    In a forked process it is new too: the thread that held it does not exist there.
    """

    def __init__(self) -> None:
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Replace the lock by one that nobody holds."""
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)()

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


class WhileUsed:
    """A setting of the whole process that is changed while any thread needs it.

    The first user changes it, and the last one restores it. If each user saved and restored the value it
    saw, two threads whose uses overlap would leave the change behind.

    Args:
        change: makes the change, and returns a function that restores the setting.
    """

    def __init__(self, change: Callable[[], Callable[[], object]]) -> None:
        self._change = change
        self._lock = RenewedLock()
        self._users = 0
        self._restore: Callable[[], object] | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Inside, the setting is changed."""
        with self._lock:
            if self._users == 0:
                self._restore = self._change()
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0 and self._restore is not None:
                    self._restore()
