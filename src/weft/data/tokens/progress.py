"""The progress display of tokenization: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weft.utils.notes import is_quiet
from weft.utils.terminal import console, escaped

if TYPE_CHECKING:
    from weft.data.splits.split import Split

SECONDS = 5.0
"""The time between two plain lines."""


class Tokenizing:
    """Displays the progress of tokenization; splits that are read from the cache are not shown."""

    def __init__(self, show: bool) -> None:
        self._show = show and not is_quiet()
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}
        self._last = time.monotonic()

    def of(self, key: tuple[str, str], rows: Split) -> Callable[[int, int], None] | None:
        """Return the progress callback of `tokenize` for this split."""
        if not self._show:
            return None
        name = "/".join(key)
        return lambda done, total: self._report(name, done, total)

    def _report(self, name: str, done: int, total: int) -> None:
        if sys.stderr.isatty():
            self._move(name, done, total)
        elif time.monotonic() - self._last >= SECONDS:
            # short tokenizations print nothing
            self._last = time.monotonic()
            print(f"tokenizing {escaped(name)}: {done} of {total}", file=sys.stderr, flush=True)

    def _move(self, name: str, done: int, total: int) -> None:
        if self._bar is None:
            from rich.progress import Progress

            self._bar = Progress(console=console(stderr=True), transient=True)
            self._bar.start()
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(f"tokenizing {name}", total=total)
        self._bar.update(self._tasks[name], completed=done)
        if done == total:
            self._bar.remove_task(self._tasks.pop(name))

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def tokenizing(show: bool) -> Iterator[Tokenizing]:
    """Display the progress of the tokenization inside the context."""
    shown = Tokenizing(show)
    try:
        yield shown
    finally:
        shown.close()
