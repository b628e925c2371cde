"""The progress of many cells: a live table on a terminal, plain lines elsewhere.

12/35 done  3 running  1 failed  left 0:42:10
  lora, uniform · seed 2       step 3,400/12,000  score 71.3
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, Protocol, TextIO

from weft.experiments.pool import Running
from weft.experiments.records import Record
from weft.utils.notes import is_quiet
from weft.utils.terminal import console as new_console
from weft.utils.terminal import escaped

EVERY = 30.0
"""The seconds between two plain lines about cells that run."""
NAME = 44
"""The width of a cell's name."""


class Display(Protocol):
    """The interface of displays."""

    def workers(self, busy: Sequence[Running]) -> None:
        """Show what runs; called several times a second."""
        ...

    def ended(self, name: str, record: Record | None, failed: str | None) -> None:
        """Show that a cell has ended."""
        ...

    def close(self) -> None:
        """End the display."""
        ...


class Silent:
    """Shows nothing."""

    def workers(self, busy: Sequence[Running]) -> None:
        """See `Display`."""

    def ended(self, name: str, record: Record | None, failed: str | None) -> None:
        """See `Display`."""

    def close(self) -> None:
        """See `Display`."""


class Progress:
    """Counts cells and estimates the time that is left.

    Args:
        cells: the number of cells.
        done: how many are done already.
    """

    def __init__(self, cells: int, done: int) -> None:
        self.cells, self.done, self.before, self.failed = cells, done, done, 0
        self.began = time.monotonic()

    def count(self, failed: bool) -> None:
        """Count a cell that has ended."""
        self.done += not failed
        self.failed += failed

    def left(self, busy: Sequence[Running]) -> float | None:
        """The seconds that are left, if all cells take as long as those so far; None: not known yet."""
        parts = [shares(worker) for worker in busy]
        ended = self.done - self.before + self.failed + sum(parts)
        waiting = self.cells - self.done - self.failed - sum(parts)
        spent = time.monotonic() - self.began
        return spent / ended * waiting if ended >= 0.02 else None

    def head(self, busy: Sequence[Running]) -> str:
        """The first line."""
        failed = f"  {self.failed} failed" if self.failed else ""
        left = self.left(busy)
        time_left = "" if left is None else f"  left {duration(left)}"
        return f"{self.done}/{self.cells} done  {len(busy)} running{failed}{time_left}"


class Lines(Progress):
    """Plain lines: one per cell that ends, and one every half minute about those that run."""

    def __init__(self, cells: int, done: int, out: TextIO | None = None) -> None:
        super().__init__(cells, done)
        self._out = sys.stderr if out is None else out
        self._last = time.monotonic()

    def workers(self, busy: Sequence[Running]) -> None:
        """See `Display`."""
        if time.monotonic() - self._last >= EVERY:
            self._last = time.monotonic()
            rows = "; ".join(f"{worker.job.name}: {state(worker)}" for worker in busy if worker.job)
            self._print(f"{self.head(busy)}  ({rows})")

    def ended(self, name: str, record: Record | None, failed: str | None) -> None:
        """See `Display`."""
        self.count(failed is not None)
        self._print(f"[{self.done + self.failed}/{self.cells}] {name}: {result(record, failed)}")

    def close(self) -> None:
        """See `Display`."""

    def _print(self, text: str) -> None:
        print(escaped(text), file=self._out, flush=True)


class Table(Progress):
    """A live table: one line in all, and one per cell that runs; cells that have ended scroll up."""

    def __init__(self, cells: int, done: int, console: Any = None) -> None:
        from rich.live import Live

        super().__init__(cells, done)
        self._live = Live(console=console or new_console(stderr=True), refresh_per_second=4, transient=True)
        self._live.start()

    def workers(self, busy: Sequence[Running]) -> None:
        """See `Display`."""
        from rich.text import Text

        rows = [f"  {short(worker.job.name):{NAME}}  {state(worker)}" for worker in busy if worker.job]
        self._live.update(Text(escaped("\n".join([self.head(busy), *rows])), no_wrap=True))

    def ended(self, name: str, record: Record | None, failed: str | None) -> None:
        """See `Display`."""
        from rich.text import Text

        self.count(failed is not None)
        self._live.console.print(Text(escaped(f"{short(name):{NAME}}  {result(record, failed)}")))

    def close(self) -> None:
        """See `Display`."""
        self._live.stop()


def display_for(cells: int, done: int) -> Display:
    """The display that fits standard error."""
    if is_quiet():
        return Silent()
    return Table(cells, done) if sys.stderr.isatty() else Lines(cells, done)


def shares(worker: Running) -> float:
    """The share of a cell's steps that are done."""
    total = worker.state.get("total") or 0
    return worker.state.get("step", 0) / total if total else 0.0


def state(worker: Running) -> str:
    """The steps and the score of a cell that runs."""
    if not worker.state:
        return "starts"
    score = worker.state.get("score")
    shown = "" if score is None else f"  score {100 * score:.1f}"
    return f"step {worker.state['step']:,}/{worker.state['total']:,}{shown}"


def result(record: Record | None, failed: str | None) -> str:
    """The result of a cell that has ended."""
    if failed is not None:
        return f"failed: {failed.splitlines()[0]}"
    if record is None:
        return "done"
    from weft.experiments.tuning import average_of

    average = average_of("average", record.metrics)
    score = "" if average is None else f"score {100 * average:.1f}  "
    return f"{score}{duration(record.seconds.get('all', 0))}"


def short(name: str) -> str:
    """A name that fits its column."""
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
