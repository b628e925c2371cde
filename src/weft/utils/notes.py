"""Notes: what a user should know and no error is. The library hands them on; who prints them is up to it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

Tell = Callable[[str], None]
"""Takes a note."""


def print_note(note: str) -> None:
    """A line on standard error."""
    print(f"note: {note}", file=sys.stderr)


def print_notes(notes: Iterable[str]) -> None:
    """Several lines on standard error."""
    for note in notes:
        print_note(note)


def no_note(note: str) -> None:
    """Drop the note."""


def teller(progress: bool) -> Tell:
    """What takes notes where `progress` says whether anything is shown."""
    return print_note if progress else no_note
