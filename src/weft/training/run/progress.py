"""Progress display in training: a bar on a terminal, plain lines elsewhere.

Every line fits the terminal, or 80 columns, with any number of tasks: the step, the total, the percentage,
the time left and the last score come first, then as many tasks as fit, then how many more there are:

    step  400/2000  20.0%  left 1:10  score 71.3  loss: cola 0.612  rte 0.701  +12 tasks
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol, TextIO

from weft.utils.notes import is_quiet
from weft.utils.terminal import console as new_console
from weft.utils.terminal import escaped

WIDTH = 80
"""The width of a plain line, in columns."""

BAR = 8
"""The width of the bar on a terminal, in columns."""


def early(done: int) -> bool:
    """Whether the losses are shown after this step although the log has no line yet: 1, 10, 100, ….

    It depends on the step alone, so that all processes read their losses in the same steps.
    """
    return done == 10 ** (len(str(done)) - 1)


class Progress(Protocol):
    """The interface of progress displays, which are called at every step and evaluation."""

    def step(self, done: int, losses: Mapping[str, float] | None) -> None:
        """Show that a step is done.

        Args:
            done: the number of steps done.
            losses: the mean loss of each task since the last line of the log, if they are to be shown now.
        """
        ...

    def evaluated(self, done: int, average: float, scores: Mapping[str, str]) -> None:
        """Show an evaluation.

        Args:
            done: the number of steps done.
            average: the average over the tasks, from 0 to 1.
            scores: the score of each task, as it is to be shown.
        """
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

    def evaluated(self, done: int, average: float, scores: Mapping[str, str]) -> None:
        """See `Progress`."""

    def say(self, text: str) -> None:
        """See `Progress`."""

    def close(self) -> None:
        """See `Progress`."""


class Course:
    """How far a run is: the part of a line that does not depend on the tasks.

    Args:
        total: the steps of the run.
        first: the step it begins with.
        word: the first word of a line.
    """

    def __init__(self, total: int, first: int = 0, word: str = "step ") -> None:
        self.total, self.first, self.word = total, first, word
        self.score = ""
        self._since = (first, time.monotonic())

    def head(self, done: int) -> str:
        """The step, the total, the percentage, the time left and the last score."""
        if done == self.first + 1:
            # the first step also compiles and allocates: it says nothing about the others
            self._since = (done, time.monotonic())
        step, began = self._since
        share = 100 * done / max(1, self.total)
        parts = [f"{self.word}{done:>{len(str(self.total))}}/{self.total} {share:5.1f}%"]
        if done > step:
            seconds = (time.monotonic() - began) / (done - step)
            parts.append(f"left {clock(seconds * (self.total - done))}")
        return "  ".join([*parts, self.score] if self.score else parts)

    def losses(self, done: int, losses: Mapping[str, float], width: int) -> str:
        """The line of a step, with the loss of each task."""
        values = {name: f"{loss:.3f}" for name, loss in losses.items()}
        mean = sum(losses.values()) / max(1, len(losses))
        return fit(self.head(done), "loss", values, width, f"{mean:.3f}, mean of {len(losses)} tasks")

    def evaluated(self, done: int, average: float, scores: Mapping[str, str], width: int) -> str:
        """The line of an evaluation, with the score of each task."""
        self.score = f"score {100 * average:.1f}"
        return fit(self.head(done), "tasks", scores, width, str(len(scores)))


class Lines:
    """Plain lines, for files and pipes.

    Args:
        total: the steps of the run.
        first: the step it begins with.
        out: the stream to write to; by default stderr.
    """

    def __init__(self, total: int, first: int = 0, out: TextIO | None = None) -> None:
        self.course, self.out = Course(total, first), out or sys.stderr

    def step(self, done: int, losses: Mapping[str, float] | None) -> None:
        """Print a line if there are losses to show, and after the first step of a resumed run."""
        head = self.course.head(done)  # at every step: it measures the time
        if losses is not None:
            self.say(self.course.losses(done, losses, WIDTH))
        elif done == self.course.first + 1:
            self.say(head)

    def evaluated(self, done: int, average: float, scores: Mapping[str, str]) -> None:
        """Print a line with the scores."""
        self.say(self.course.evaluated(done, average, scores, WIDTH))

    def say(self, text: str) -> None:
        """Print a line."""
        print(escaped(text), file=self.out, flush=True)

    def close(self) -> None:
        """See `Progress`."""


class Bar:
    """A progress bar with the last line beside it; the lines of evaluations stay above it.

    Args:
        total: the steps of the run.
        first: the step it begins with.
        console: rich's console; by default one on stderr.
    """

    def __init__(self, total: int, first: int = 0, console: Any = None) -> None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self.course = Course(total, first, word="")
        self._losses: Mapping[str, float] = {}
        # no markup: a task may be named o[red]x
        columns: list[Any] = [BarColumn(bar_width=BAR), TextColumn("{task.fields[line]}", markup=False)]
        self._rich = RichProgress(*columns, console=console or new_console(stderr=True), refresh_per_second=4)
        self._task = self._rich.add_task("train", total=total, completed=first, line=self.course.head(first))
        self._rich.start()

    def step(self, done: int, losses: Mapping[str, float] | None) -> None:
        """Advance the bar, and show the losses if there are new ones."""
        self._losses = losses or self._losses
        line = self.course.losses(done, self._losses, self._rich.console.width - BAR - 1)
        self._rich.update(self._task, completed=done, line=line)

    def evaluated(self, done: int, average: float, scores: Mapping[str, str]) -> None:
        """Print the scores above the bar, and the average beside it."""
        self.say(self.course.evaluated(done, average, scores, self._rich.console.width))
        self.step(done, None)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._rich.console.print(escaped(text), highlight=False, markup=False)

    def close(self) -> None:
        """Stop updating the bar."""
        self._rich.stop()


def progress_for(total: int, first: int = 0) -> Progress:
    """A bar if stderr is a terminal, else lines; nothing if messages are off."""
    if is_quiet():
        return Quiet()
    return Bar(total, first) if sys.stderr.isatty() else Lines(total, first)


def fit(head: str, title: str, values: Mapping[str, str], width: int, brief: str) -> str:
    """A line of at most `width` columns with as many values as fit, and the number of the others.

    Args:
        head: the beginning of the line; it is never shortened.
        title: what the values are.
        values: the value of each task.
        width: the width of the line.
        brief: what is shown if not even the first value fits.
    """
    from rich.cells import cell_len

    if not values:
        return head
    items = [f"{name} {value}" for name, value in values.items()]
    # from the left, since a run may have hundreds of tasks: the longest line that fits
    line = f"{head}  {title}: {brief}"
    line = line if cell_len(line) <= width else head
    start = f"{head}  {title}:"
    used = cell_len(start) - 1
    for shown, item in enumerate(items, 1):
        start, used = f"{start}{'  ' if shown > 1 else ' '}{item}", used + cell_len(item) + 2
        if used > width:
            break
        hidden = len(items) - shown
        more = f"  +{hidden} task{'s' * (hidden > 1)}" if hidden else ""
        if used + len(more) <= width:
            line = start + more
    return line


def clock(seconds: float) -> str:
    """A duration as 0:42, 12:05 or 3:00:00."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
