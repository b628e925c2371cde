"""Waits for a process, and ends it if it hangs.

On a busy machine a wall clock alone would call slow what only waits for its turn. A process hangs if it has
used so many seconds of processor time, or if it has slept so long without using any.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

SECONDS = 5.0
"""The longest time that a case may take."""
STARVED = 40.0
"""After so many times the limit a process is ended whatever it does."""

_TICKS = os.sysconf("SC_CLK_TCK")


class Ended(NamedTuple):
    """How a process ended.

    Attributes:
        code: its exit code; negative: the number of the signal that ended it; None: it hung and was ended.
        seconds: the processor time that it used.
    """

    code: int | None
    seconds: float


def watch(process: int, limit: float = SECONDS) -> Ended:
    """Wait for a child process, which leads a process group, and end it if it hangs."""
    began = moved = time.monotonic()
    used = 0.0
    pause = 0.001
    while True:
        pid, status, usage = os.wait4(process, os.WNOHANG)
        if pid == process:
            return Ended(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime)
        now = time.monotonic()
        if now - began > min(1.0, limit):
            state, seconds = _progress(process)
            # a process that is ready to run has not been given its turn
            if seconds > used or state == "R":
                used, moved = seconds, now
            if used > limit or now - moved > limit or now - began > STARVED * limit:
                return Ended(None, _end(process))
        time.sleep(pause)
        pause = min(0.02, pause * 1.5)


def _progress(process: int) -> tuple[str, float]:
    """The state of a process and the processor time that it has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return fields[0], (int(fields[11]) + int(fields[12])) / _TICKS


def _end(process: int) -> float:
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:  # it has not become the leader of a group yet
        os.kill(process, signal.SIGKILL)
    _, _, usage = os.wait4(process, 0)
    return usage.ru_utime + usage.ru_stime
