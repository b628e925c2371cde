"""State that each thread has for itself, and a lock that a copy of its owner does not share."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self


class PerThread(threading.local):
    """An object whose attributes each thread has for itself; `__init__` runs once in every thread.

    A `threading.local` and not a `contextvars.ContextVar`, which the compiler cannot trace. A copy and an
    unpickled object begin anew: what a thread is doing is not copied.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)()

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


class ModelLock:
    """A re-entrant lock; a copy of it, or an unpickled one, is a new lock that nobody holds."""

    def __init__(self) -> None:
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
