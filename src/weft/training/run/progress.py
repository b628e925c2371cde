"""Progress display in training: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol, TextIO


class Progress(Protocol):
    """The interface of progress displays, which are called at every step and evaluation."""

    def step(self, done: int, losses: Mapping[str, float] | None) -> None:
        """Show that a step is done.

        Args:
            done: the number of steps done.
            losses: the mean loss of each task since the last log line, if the log has a line now.
        """
        ...

    def score(self, average: float) -> None:
        """Show the average of an evaluation."""
        ...

    def say(self, text: str) -> None:
        """Show a line of text."""
        ...

    def close(self) -> None:
        """End the display."""
        ...


class Quiet:
    """A display that shows nothing."""

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
        out: the stream to write to; by default stderr.
    """

    def __init__(self, total: int, first: int = 0, out: TextIO | None = None) -> None:
        self.total, self.first, self.out = total, first, out or sys.stderr
        self.began = time.monotonic()

    def step(self, done: int, losses: Mapping[str, float] | None) -> None:
        """Print a line if the log has one: step, loss of each task, time left."""
        if losses is not None:
            step_seconds = (time.monotonic() - self.began) / max(1, done - self.first)
            text = "  ".join(f"{name} {loss:.3f}" for name, loss in losses.items())
            left = _clock(step_seconds * (self.total - done))
            self.say(f"step {done}/{self.total}  loss: {text}  left {left}")

    def score(self, average: float) -> None:
        """See `Progress`; the line of the evaluation contains the average already."""

    def say(self, text: str) -> None:
        """Print a line."""
        print(text, file=self.out, flush=True)

    def close(self) -> None:
        """See `Progress`."""


class Bar:
    """A progress bar: step, loss of each task, last score, time left.

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
        """Advance the bar, and show the losses if there are new ones."""
        self._rich.update(self._task, completed=done)
        if losses is not None:
            text = " ".join(f"{name} {loss:.2f}" for name, loss in losses.items())
            self._rich.update(self._task, losses=text)

    def score(self, average: float) -> None:
        """Show the last average beside the bar."""
        self._rich.update(self._task, score=f"score {100 * average:.1f}")

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._rich.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        """Stop updating the bar."""
        self._rich.stop()


def progress_for(total: int, first: int = 0) -> Progress:
    """A bar if stderr is a terminal, else lines."""
    return Bar(total, first) if sys.stderr.isatty() else Lines(total, first)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
