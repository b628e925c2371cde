"""Stop a run at a step boundary: Ctrl-C and SIGTERM write a checkpoint first."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # `weft train` imports this file before it imports torch
    from weft.utils.processes import Processes

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C, and what batch systems and containers send before they kill."""

CHECKPOINT_SECONDS = 300.0
"""The time between two checkpoints if `train.checkpoint_every` is null."""

AGREE_EVERY = 8
"""Several processes compare their signals and clocks at every so many steps: each comparison is a message."""

STOPPING = "\nstopping after this step; press Ctrl-C again to stop at once without a checkpoint\n"


class Interrupted(KeyboardInterrupt):
    """A run was stopped by a signal, and its checkpoint is written.

    A `KeyboardInterrupt`, so that Ctrl-C in a notebook or script ends the cell or script as usual.

    Attributes:
        folder: the run's folder.
        step: the number of steps done.
        signal: the signal's number, such as 2 (SIGINT) or 15 (SIGTERM).
    """

    def __init__(self, folder: Path, step: int, number: int) -> None:
        super().__init__(f"stopped after step {step}; the run in {folder} can be resumed")
        self.folder, self.step, self.signal = folder, step, number


class Interruptions:
    """Records signals while a run trains, and decides when a checkpoint is due.

    Inside the context a first signal is only recorded; the loop asks `stop` at every step boundary. A second
    signal has its usual effect: Ctrl-C raises `KeyboardInterrupt` at once. Signals can only be handled in the
    main thread; in other threads they keep their usual effect.

    Args:
        every: `train.checkpoint_every`: steps between two checkpoints; 0: none; None: by time.
        processes: the processes that train together. All of them stop at the same step.
        clock: seconds; replaced in tests.
    """

    def __init__(
        self, every: int | None, processes: Processes, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.every, self.processes, self.clock = every, processes, clock
        self.received: int | None = None
        self.agreed: int | None = None
        self._before: dict[int, Any] = {}
        self._saved_at = clock()

    def __enter__(self) -> Interruptions:
        """Record signals from now on."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                # a signal that is ignored stays ignored: nohup, or a shell's background job
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the usual effect of the signals."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def checkpoint_due(self, step: int) -> bool:
        """Return whether a checkpoint is due after `step` steps; all processes get the same answer."""
        stop, due = self.received is not None, False
        if self.every:
            due = step % self.every == 0
        elif self.every is None:
            due = self.clock() - self._saved_at >= CHECKPOINT_SECONDS
        if self.processes.world > 1:
            by_time = due if self.every is None else False
            if step % AGREE_EVERY:
                stop, by_time = False, False
            else:
                # the clock of the main process decides
                flags = np.array([stop, by_time and self.processes.is_main], np.float64)
                stop, by_time = (bool(flag) for flag in self.processes.sum_array(flags))
            due = by_time if self.every is None else due
        if stop:
            self.agreed = self.received or signal.SIGTERM
        return due or stop

    def saved(self) -> None:
        """A checkpoint has been written: the time until the next one begins."""
        self._saved_at = self.clock()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            self.__exit__()
            raise KeyboardInterrupt
        self.received = number
        if self.processes.is_main:
            # not by print: the signal may arrive while the program itself prints
            os.write(2, STOPPING.encode())
