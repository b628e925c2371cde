"""Table: the requested columns of a file of any format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from weft.data.readers.problem import DataError, Problem
from weft.errors import did_you_mean


@dataclass(frozen=True, eq=False)
class Table:
    """Some columns of a source.

    Attributes:
        source: the file, or "rows of task X".
        columns: the n values of each column; None is a missing value. A missing optional column is left out.
        row: the line (text files) or row of each example, from 1, [n]; of rows in memory their index, which
            may be strings.
        unit: what `row` counts, "line", "row", "question" or "index".
        names: the task's column name → the file's, for columns whose names differ.
        notes: what `weft check` reports about how the file was read.
        own: whether nobody else has the lists of values, so that they may be emptied while they are read.
    """

    source: str
    columns: dict[str, list[object]]
    row: NDArray[Any]
    unit: str = "row"
    names: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    own: bool = False

    def __len__(self) -> int:
        return len(self.row)

    def row_name(self, at: int) -> int | str:
        """The line, row or index of an example, for messages."""
        return row_name(self.row[at])

    def called(self, column: str) -> str:
        """The file's name of the column, for messages."""
        return self.names.get(column, column)


def row_name(row: Any) -> int | str:
    """A row as messages and JSON show it."""
    return row if isinstance(row, str) else int(row)


def wanted_columns(
    source: str,
    known: Sequence[str],
    columns: Sequence[str],
    optional: Sequence[str] = (),
    *,
    row: int | None = None,
    unit: str = "row",
    hint: str = "",
) -> list[str]:
    """Select the columns to read.

    Args:
        source: the file, for messages.
        known: the columns of the file.
        columns: the required columns.
        optional: columns that may be missing.
        row: the row of the column names, for messages.
        unit: what `row` counts.
        hint: more words for the message about a missing column.

    Raises:
        DataError: a column is missing or occurs twice; all such columns are listed.
    """
    problems = []
    # if a file lacks its header line, the "names" are whole texts
    names = [name if len(name) <= 40 else f"{name[:40]}…" for name in known]
    for column in dict.fromkeys(columns):
        if column not in known:
            message = f"there is no such column; {did_you_mean(column, names)}{hint}"
            problems.append(Problem(source, message, row, column, list(known), unit))
    selected = [column for column in dict.fromkeys((*columns, *optional)) if column in known]
    for column in selected:
        if (times := list(known).count(column)) > 1:
            message = f"found {times} columns with this name; expected one"
            problems.append(Problem(source, message, row, column, list(known), unit))
    if problems:
        raise DataError(*problems)
    return selected


def no_rows(source: str, what: str = "the file is empty") -> DataError:
    """Return the error for a source without rows."""
    return DataError(Problem(source, f"{what}; expected at least one row"))
