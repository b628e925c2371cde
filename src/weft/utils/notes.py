"""Notes to the user that are not errors. Library functions pass them to a callback, which may print them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

Tell = Callable[[str], None]
"""A callback that takes a note."""


def print_note(note: str) -> None:
    """Print one note on standard error."""
    print(f"note: {note}", file=sys.stderr)


def print_notes(notes: Iterable[str]) -> None:
    """Print several notes on standard error, one per line."""
    for note in notes:
        print_note(note)


def no_note(note: str) -> None:
    """Ignore the note."""


def teller(progress: bool) -> Tell:
    """Return `print_note` if progress is shown, else `no_note`."""
    return print_note if progress else no_note
