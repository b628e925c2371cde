"""The columns of a file that were asked for, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weft.data.readers.problem import DataError, Problem
from weft.errors import did_you_mean


@dataclass(frozen=True, eq=False)
class Table:
    """Some columns of a source.

    Attributes:
        source: the file, or "rows of task X".
        columns: the values of each column, n of them; an optional column that is not there is left out.
        row: the line (text files) or row that each comes from, from 1, [n]; None stands for a value that is
            not there.
        unit: what `row` counts, "line", "row" or "question".
        names: the file's names of those columns that it calls otherwise.
    """

    source: str
    columns: dict[str, list[object]]
    row: NDArray[np.int64]
    unit: str = "row"
    names: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.row)

    def called(self, column: str) -> str:
        """The column as the file calls it, for messages."""
        return self.names.get(column, column)


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
    """The columns to read of those a source has.

    Args:
        source: the file, for messages.
        known: the columns that it has.
        columns: those that must be there.
        optional: those that may be missing.
        row: where the names stand, for messages.
        unit: what `row` counts.
        hint: more words for the message about a missing column.

    Raises:
        DataError: a column is missing, or there twice; all such columns at once.
    """
    problems = []
    # where a file lacks its line of names, a whole text stands in their place
    names = [name if len(name) <= 40 else f"{name[:40]}…" for name in known]
    for column in dict.fromkeys(columns):
        if column not in known:
            message = f"there is no such column; {did_you_mean(column, names)}{hint}"
            problems.append(Problem(source, message, row, column, list(known), unit))
    found = [column for column in dict.fromkeys((*columns, *optional)) if column in known]
    for column in found:
        if (times := list(known).count(column)) > 1:
            message = f"found {times} columns of this name; expected one"
            problems.append(Problem(source, message, row, column, list(known), unit))
    if problems:
        raise DataError(*problems)
    return found


def no_rows(source: str, what: str = "the file is empty") -> DataError:
    """The error for a source without a single row."""
    return DataError(Problem(source, f"{what}; expected at least one row"))
