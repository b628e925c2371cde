"""Notes to the user that are not errors. Library functions pass them to a callback, which may print them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from weft.utils.terminal import escaped

Tell = Callable[[str], None]
"""A callback that takes a note."""


_quiet = False


@contextmanager
def quiet(on: bool = True) -> Iterator[None]:
    """Inside, notes, warnings and progress are not shown in this process (`--quiet`); errors are."""
    global _quiet
    before, _quiet = _quiet, on
    try:
        yield
    finally:
        _quiet = before


def be_quiet() -> None:
    """Show no more notes, warnings and progress, until the context of `quiet` ends."""
    global _quiet
    _quiet = True


def is_quiet() -> bool:
    """Whether notes, warnings and progress are off."""
    return _quiet


def print_note(note: str) -> None:
    """Print one note on standard error, unless notes are off."""
    if not _quiet:
        print(f"note: {escaped(note)}", file=sys.stderr)


def print_notes(notes: Iterable[str]) -> None:
    """Print several notes on standard error, one per line."""
    for note in notes:
        print_note(note)


def no_note(note: str) -> None:
    """Ignore the note."""


def teller(progress: bool) -> Tell:
    """Return `print_note` if progress is shown, else `no_note`."""
    return print_note if progress else no_note
