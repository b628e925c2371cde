"""The progress of many files: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

from weft.corpora.crew import Busy
from weft.corpora.finished import Finished
from weft.corpora.partition import Partition
from weft.utils.counted import counted
from weft.utils.notes import is_quiet, print_note
from weft.workflows.prediction_progress import Progress

EVERY = 30.0
"""The seconds between two lines, where there is no terminal."""


class CorpusProgress:
    """Shows how many rows of all files have a prediction.

    Args:
        partitions: all files.
        finished: those that were finished before.
        show: whether to show anything.
    """

    def __init__(
        self, partitions: Sequence[Partition], finished: Mapping[Partition, Finished], show: bool
    ) -> None:
        self._on = show and not is_quiet()
        self._bar = Progress(self._on)
        self._bytes = sum(partition.size for partition in partitions if partition not in finished) or 1
        self._files, self._waiting = 0, len(partitions) - len(finished)
        self._done_bytes = self._rows = 0
        self._began = self._last = time.monotonic()

    def done(self, partition: Partition, rows: int) -> None:
        """Note a finished file."""
        self._files += 1
        self._done_bytes += partition.size
        self._rows += rows

    def busy(self, workers: Sequence[Busy]) -> None:
        """Show what runs; called several times a second."""
        rows, size = self._rows, float(self._done_bytes)
        for worker in workers:
            rows += int(worker.state.get("step", 0))
            size += worker.job.partition.size * float(worker.state.get("share") or 0.0)
        if not self._on:
            return
        if sys.stderr.isatty():
            self._bar.show(rows, min(1.0, size / self._bytes))
        elif time.monotonic() - self._last >= EVERY:
            self._last = time.monotonic()
            speed = rows / (self._last - self._began)
            files = f"{self._files:,} of {counted(self._waiting, 'file')}"
            print_note(f"{files}, {counted(rows, 'row')}, {speed:,.0f} per second")

    def close(self) -> None:
        """Remove the bar."""
        self._bar.close()
