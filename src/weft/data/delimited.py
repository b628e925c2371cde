"""csv and tsv files, whose first line names the columns.

In csv a text with a comma, a quote or a line break stands in quotes, and quotes inside are doubled. In tsv a
quote is a character like any other, since the public tsv files (GLUE's among them) write texts as they are;
so a text in tsv can hold no tab and no line break.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from weft.data.lines import text_lines
from weft.data.problem import DataError, Problem, show
from weft.data.table import Table, no_rows, wanted_columns

_HINTS = {
    ",": "in csv, a text with a comma, quote or line break stands in quotes, with the quotes inside doubled",
    "\t": "in tsv, a text has no tab or line break, and quotes are plain characters; csv and jsonl hold all",
}


def read_csv(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """Some columns of a csv file; every value is a string."""
    return _read(path, columns, optional, ",", csv.QUOTE_MINIMAL)


def read_tsv(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """Some columns of a tsv file; every value is a string."""
    return _read(path, columns, optional, "\t", csv.QUOTE_NONE)


def _read(path: Path, columns: Sequence[str], optional: Sequence[str], delimiter: str, quoting: Any) -> Table:
    source, hint = str(path), _HINTS[delimiter]
    lines: list[int] = []
    with text_lines(path) as text, _long_fields():
        # strict: without it, broken quotes silently swallow the rows that follow
        records = _records(csv.reader(text, delimiter=delimiter, quoting=quoting, strict=True), source, hint)
        line, header = next(records, (0, None))
        if header is None:
            raise no_rows(source)
        first = f"; the first line must name the columns, separated by {delimiter!r}"
        chosen = wanted_columns(source, header, columns, optional, row=line, unit="line", hint=first)
        places = [header.index(column) for column in chosen]
        values: list[list[object]] = [[] for _ in places]
        for line, record in records:
            if len(record) != len(header):
                raise _ragged(source, line, header, record, hint)
            lines.append(line)
            for column, place in zip(values, places, strict=True):
                column.append(record[place])
    if not lines:
        raise no_rows(source, f"the file names {len(header)} columns and has no rows")
    return Table(source, dict(zip(chosen, values, strict=True)), np.array(lines, np.int64), "line")


def _records(reader: Any, source: str, hint: str) -> Iterator[tuple[int, list[str]]]:
    """The records that are not blank, each with the line where it begins."""
    while True:
        line = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as failed:
            end = "" if reader.line_num <= line else f" in the record that goes on to line {reader.line_num}"
            message = f"broken quotes{end} ({failed}); {hint}"
            raise DataError(Problem(source, message, line, unit="line")) from failed
        if record:
            yield line, record


def _ragged(source: str, line: int, header: list[str], record: list[str], hint: str) -> DataError:
    if len(record) < len(header):
        column, value, more = header[len(record)], None, "this column is missing"
    else:
        column, value = header[-1], record[len(header)]
        more = f"what follows this column is {show(value)}"
    message = f"found {len(record)} values; expected {len(header)}, as the first line has; {more}; {hint}"
    return DataError(Problem(source, message, line, column, value, "line"))


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let a text be longer than the csv module's 131,072 characters."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)
