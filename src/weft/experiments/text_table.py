"""A table of texts, which the terminal, Markdown and CSV share."""

from __future__ import annotations

from dataclasses import dataclass

NONE = "–"
"""What a cell without a value shows."""


@dataclass(frozen=True)
class TextTable:
    """A table of texts.

    Attributes:
        title: its title.
        columns: the titles of its columns.
        rows: its rows.
        note: a line below it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
