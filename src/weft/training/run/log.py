"""The log of a run, log.jsonl: one line per event."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from weft.training.run.lock import check_still_ours
from weft.utils.checksums import start_sha256
from weft.utils.strict_json import strict_json
from weft.utils.write_errors import explained


class Log:
    """Writes log.jsonl.

    Args:
        folder: the run's folder.
        cut_to: the length in bytes to truncate an existing log to; None: begin a new log.
        watch: called with every line after it was written.
    """

    def __init__(
        self,
        folder: Path,
        cut_to: int | None = None,
        watch: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.path = folder / "log.jsonl"
        if cut_to is None:
            self.path.write_bytes(b"")
        else:
            with self.path.open("ab") as file:
                # never longer: a log that has lost lines would get zeros for them
                file.truncate(min(cut_to, self.path.stat().st_size))
        self._watch = watch

    @property
    def size(self) -> int:
        """The length of the log in bytes."""
        return self.path.stat().st_size

    def sha256(self) -> str | None:
        """The sha256 of the log so far; None if there is none."""
        return start_sha256(self.path, self.size)

    def write(self, event: str, **facts: Any) -> None:
        """Add one line."""
        line = {"event": event, "time": round(time.time(), 3), **facts}
        check_still_ours(self.path.parent)
        with explained(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(strict_json(line) + "\n")
        if self._watch is not None:
            self._watch(line)


class NoLog(Log):
    """A log that writes nothing, for processes other than the main one."""

    def __init__(self) -> None:
        pass

    @property
    def size(self) -> int:
        """See `Log`."""
        return 0

    def sha256(self) -> str | None:
        """See `Log`."""
        return None

    def write(self, event: str, **facts: Any) -> None:
        """See `Log`."""
