"""The log of a run, log.jsonl: one line per event."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from weft.training.run.lock import check_still_ours
from weft.utils.checksums import start_sha256
from weft.utils.write_errors import explained


class Log:
    """Writes log.jsonl and, if requested, TensorBoard events.

    Args:
        folder: the run's folder.
        tensorboard: whether to write TensorBoard events.
        cut_to: the length in bytes to truncate an existing log to; None: begin a new log.
    """

    def __init__(self, folder: Path, tensorboard: bool = False, cut_to: int | None = None) -> None:
        self.path = folder / "log.jsonl"
        if cut_to is None:
            self.path.write_bytes(b"")
        else:
            with self.path.open("ab") as file:
                # never longer: a log that has lost lines would get zeros for them
                file.truncate(min(cut_to, self.path.stat().st_size))
        self._board: Any = _board(folder) if tensorboard else None

    @property
    def size(self) -> int:
        """The length of the log in bytes."""
        return self.path.stat().st_size

    def sha256(self) -> str | None:
        """The sha256 of the log so far; None if there is none."""
        return start_sha256(self.path, self.size)

    def write(self, event: str, **facts: Any) -> None:
        """Add one line; the numbers of a step are also written to TensorBoard."""
        line = {"event": event, "time": round(time.time(), 3), **facts}
        check_still_ours(self.path.parent)
        with explained(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if self._board is not None and "step" in facts:
            for name, value in _numbers(event, facts):
                self._board.add_scalar(name, value, facts["step"])

    def close(self) -> None:
        """Close the TensorBoard writer."""
        if self._board is not None:
            self._board.close()


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

    def close(self) -> None:
        """See `Log`."""


def _numbers(place: str, value: Any) -> list[tuple[str, float]]:
    if isinstance(value, dict):
        return [pair for k, v in value.items() if k != "step" for pair in _numbers(f"{place}/{k}", v)]
    return [(place, float(value))] if isinstance(value, int | float) and not isinstance(value, bool) else []


def _board(folder: Path) -> Any:
    from weft.errors import WeftError

    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise WeftError("train.tensorboard needs TensorBoard; type: pip install tensorboard") from None
    return SummaryWriter(str(folder / "tensorboard"))
