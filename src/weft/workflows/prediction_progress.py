"""The progress display of `weft predict`: a bar on a terminal, nothing in pipes."""

from __future__ import annotations

import sys
import time
from typing import Any

from weft.utils.terminal import console

DELAY = 2.0
"""Seconds before the bar appears: short inputs show none."""


class Progress:
    """A bar on standard error, if that is a terminal.

    Args:
        show: whether predictions go elsewhere than to the terminal, where the bar would be in their way.
    """

    def __init__(self, show: bool) -> None:
        self._on = show and sys.stderr.isatty()
        self._start = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def show(self, rows: int, share: float | None) -> None:
        """Show how many rows were answered.

        Args:
            rows: their number.
            share: how much of the input was read, from 0 to 1; None if that is unknown.
        """
        seconds = time.monotonic() - self._start
        if not self._on or (self._bar is None and seconds < DELAY):
            return
        if self._bar is None:
            self._open()
        text = f"{rows:,} rows, {rows / seconds:,.0f} per second"
        self._bar.update(self._task, completed=share or 0.0, total=None if share is None else 1.0, rows=text)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()

    def _open(self) -> None:
        from rich import progress

        columns = (
            progress.TextColumn("predicting"),
            progress.BarColumn(20),
            progress.TextColumn("{task.fields[rows]}"),
            progress.TimeRemainingColumn(),
        )
        # standard output holds the predictions: rich must not take it over
        self._bar = progress.Progress(
            *columns, console=console(stderr=True), transient=True, redirect_stdout=False
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=None, rows="")
