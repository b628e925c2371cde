"""Problem: something wrong in a file, with its position; DataError carries problems."""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import WeftError


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with the data of a split.

    Attributes:
        source: the file, or "rows of task X".
        message: the value found and what was expected.
        row: the line in a text file, the row elsewhere, both from 1; the index of rows in memory; None for
            the file as a whole.
        column: the column.
        value: the value found.
        unit: what `row` counts, "line", "row" or "index".
    """

    source: str
    message: str
    row: int | str | None = None
    column: str | None = None
    value: object = None
    unit: str = "row"

    @property
    def place(self) -> str:
        """Its position in the source, such as "line 3, column 'label'"; empty for the file as a whole."""
        parts = [] if self.row is None else [f"{self.unit} {self.row}"]
        return ", ".join(parts if self.column is None else [*parts, f"column {self.column!r}"])

    def __str__(self) -> str:
        return f"{', '.join(filter(None, (self.source, self.place)))}: {self.message}"


class DataError(WeftError):
    """Data that cannot be read, with a list of its problems.

    Args:
        problems: at least one.
    """

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def show(value: object, most: int = 80) -> str:
    """Return the repr of a value for a message, truncated to `most` characters."""
    # do not escape megabytes of text to show its beginning
    text = repr(value[: most + 1] if isinstance(value, str) else value)
    return text if len(text) <= most else text[:most] + "…"
