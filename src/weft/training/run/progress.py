"""What a person sees while a model trains: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol, TextIO


class Progress(Protocol):
    """Told of every step and evaluation."""

    def step(self, done: int, losses: Mapping[str, float] | None) -> None:
        """A step is done; the mean loss of each task since the last time, where the log has a line."""
        ...

    def score(self, average: float) -> None:
        """The average of an evaluation."""
        ...

    def say(self, text: str) -> None:
        """A line for the person."""
        ...

    def close(self) -> None:
        """Nothing more comes."""
        ...


class Quiet:
    """Says nothing."""

    def step(self, done: int, losses: Mapping[str, float] | None) -> None:
        """See `Progress`."""

    def score(self, average: float) -> None:
        """See `Progress`."""

    def say(self, text: str) -> None:
        """See `Progress`."""

    def close(self) -> None:
        """See `Progress`."""


class Lines:
    """Plain lines, for files and pipes.

    Args:
        total: the steps of the run.
        first: the step it begins with.
        out: where to write.
    """

    def __init__(self, total: int, first: int = 0, out: TextIO | None = None) -> None:
        self.total, self.first, self.out = total, first, out or sys.stderr
        self.began = time.monotonic()

    def step(self, done: int, losses: Mapping[str, float] | None) -> None:
        """A line where the log has one: step, loss of each task, time left."""
        if losses is not None:
            each = (time.monotonic() - self.began) / max(1, done - self.first)
            told = "  ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
            self.say(f"step {done}/{self.total}  loss: {told}  left {_clock(each * (self.total - done))}")

    def score(self, average: float) -> None:
        """Said with the evaluation's own line."""

    def say(self, text: str) -> None:
        """A line."""
        print(text, file=self.out, flush=True)

    def close(self) -> None:
        """Nothing is open."""


class Bar:
    """A bar that moves: step, loss of each task, last score, time left.

    Args:
        total: the steps of the run.
        first: the step it begins with.
    """

    def __init__(self, total: int, first: int = 0) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns: list[Any] = [
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[score]}"),
            TextColumn("{task.fields[losses]}"),
        ]
        self._rich = RichProgress(*columns, console=Console(stderr=True), refresh_per_second=4)
        self._task = self._rich.add_task("train", total=total, completed=first, losses="", score="")
        self._rich.start()

    def step(self, done: int, losses: Mapping[str, float] | None) -> None:
        """Move on; show the losses when there are new ones."""
        self._rich.update(self._task, completed=done)
        if losses is not None:
            told = " ".join(f"{name} {loss:.2f}" for name, loss in losses.items())
            self._rich.update(self._task, losses=told)

    def score(self, average: float) -> None:
        """Show the last average beside the bar."""
        self._rich.update(self._task, score=f"score {100 * average:.1f}")

    def say(self, text: str) -> None:
        """A line above the bar."""
        self._rich.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._rich.stop()


def progress_for(total: int, first: int = 0) -> Progress:
    """A bar where there is a terminal, else lines."""
    return Bar(total, first) if sys.stderr.isatty() else Lines(total, first)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
