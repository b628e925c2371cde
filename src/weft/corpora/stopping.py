"""Ctrl-C and SIGTERM while files are predicted: the signal is noted, and obeyed between two steps.

A handler that raised an exception would raise it wherever the program is at this moment. Inside of Ray's
compiled code it becomes a `SystemError` that nobody expects.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stopped(Exception):
    """A call was interrupted by a signal; finished files stay.

    Attributes:
        signal: its number.
    """

    def __init__(self, number: int) -> None:
        self.signal = number
        super().__init__(f"stopped by signal {number}")


class Signals:
    """The signal that came, if one did."""

    def __init__(self) -> None:
        self._caught: int | None = None

    def note(self, number: int, frame: object = None) -> None:
        """The handler: it does nothing else, so it may run at any moment."""
        self._caught = number

    def check(self) -> None:
        """Raise `Stopped` if a signal came."""
        if self._caught is not None:
            raise Stopped(self._caught)


@contextmanager
def noted_signals() -> Iterator[Signals]:
    """Inside, Ctrl-C and SIGTERM are noted; in a thread that is not the main one nothing changes."""
    signals = Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before: dict[int, Any] = {
        number: signal.signal(number, signals.note) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
