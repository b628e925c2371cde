"""What a comparison does when it is asked to stop."""

from __future__ import annotations

import signal
import threading
from typing import Any

from weft.experiments.pool import CellPool


class Signals:
    """While cells run, SIGINT and SIGTERM let them write their checkpoints. A second signal ends at once.

    Args:
        pool: runs the cells.

    Attributes:
        caught: the number of the signal; None: there was none.
    """

    def __init__(self, pool: CellPool) -> None:
        self._pool = pool
        self.caught: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._catch)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _catch(self, number: int, frame: object) -> None:
        if self.caught is not None:  # a second one: end at once
            raise KeyboardInterrupt
        self.caught = number
        self._pool.stop(number)
