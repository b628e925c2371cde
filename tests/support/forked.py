"""Functions that run in a process of their own: a copy of this one, which starts in milliseconds."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path


class Forked:
    """A function that runs in a forked process. Only for work with files: threads are not copied."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.process = os.fork()
        if self.process == 0:
            code = 1
            try:
                work()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)

    def kill(self) -> None:
        """kill -9, and wait for the end."""
        os.kill(self.process, signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Wait for the end; its exit code, or minus the signal that killed it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def wait_for(path: Path, seconds: float = 30.0) -> None:
    """Wait until a file exists."""
    ends = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < ends, f"{path} did not appear"
        time.sleep(0.002)
