"""Numbers with nouns, for messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the right form.

    Example:
        >>> counted(1, "file"), counted(1200, "row")
        ('1 file', '1,200 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
