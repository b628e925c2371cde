"""`tensorboard`: TensorBoard events in the run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.training.trackers.tracker import Sink, TrackedRun, Tracker

FOLDER = "tensorboard"
"""The folder of the events, in the run's folder."""


class TensorBoard(Tracker):
    """Events for `tensorboard --logdir RUN`."""

    name = "tensorboard"
    package = extra = "tensorboard"

    def open(self, run: TrackedRun) -> Sink:
        """Begin a file of events; of a resumed run, events after its checkpoint are hidden."""
        from torch.utils.tensorboard import SummaryWriter

        purge = None if run.resumed_at is None else run.resumed_at + 1
        return _Events(SummaryWriter(str(run.folder / FOLDER), purge_step=purge))


class _Events:
    """Writes scalars.

    Args:
        writer: a `SummaryWriter`.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write(self, event: str, step: int, numbers: Mapping[str, float]) -> None:
        """One scalar per number."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self, failed: bool) -> None:
        """Flush and close the file."""
        self._writer.close()
