"""csv and tsv files, whose first line names the columns (or the option `header` does).

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

from weft.data.readers.lines import text_lines
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.table import Table, no_rows, wanted_columns
from weft.errors import WeftError

_HINTS = {
    True: "in csv, a text with a comma, quote or line break stands in quotes, with the quotes inside doubled",
    False: "in tsv, a text has no tab or line break, and quotes are plain characters; csv and jsonl hold all",
}


def read_csv(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    *,
    header: Sequence[str] | None = None,
    delimiter: str = ",",
    quotes: bool = True,
    ragged: str = "error",
) -> Table:
    """Some columns of a csv file; every value is a string.

    Args:
        path: the file.
        columns: the columns that must be there.
        optional: columns that are read where they are there.
        header: the names of the columns, for a file whose first line has none.
        delimiter: what stands between values.
        quotes: whether a text may stand in quotes.
        ragged: what a line with too few or too many values is: `error`, or `skip` to leave it out.
    """
    return _read(path, columns, optional, delimiter, quotes, header, ragged)


def read_tsv(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    *,
    header: Sequence[str] | None = None,
    delimiter: str = "\t",
    quotes: bool = False,
    ragged: str = "error",
) -> Table:
    """Some columns of a tsv file; every value is a string. The options are those of `read_csv`."""
    return _read(path, columns, optional, delimiter, quotes, header, ragged)


def _read(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str],
    delimiter: str,
    quotes: bool,
    names: Sequence[str] | None,
    ragged: str,
) -> Table:
    _check_options(path, delimiter, names, ragged)
    source, hint = str(path), _HINTS[quotes]
    lines: list[int] = []
    quoting: Any = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    with text_lines(path) as text, _long_fields():
        # strict: without it, broken quotes silently swallow the rows that follow
        records = _records(csv.reader(text, delimiter=delimiter, quoting=quoting, strict=True), source, hint)
        if names is None:
            line, header = next(records, (0, None))
            first = f"; the first line must name the columns, separated by {delimiter!r}"
        else:
            line, header = None, list(names)
            first = "; the option header names them"
        if header is None:
            raise no_rows(source)
        chosen = wanted_columns(source, header, columns, optional, row=line, unit="line", hint=first)
        places = [header.index(column) for column in chosen]
        values: list[list[object]] = [[] for _ in places]
        for line, record in records:
            if len(record) != len(header):
                if ragged == "skip":
                    continue
                raise _ragged(source, line, header, record, hint, names is not None)
            lines.append(line)
            for column, place in zip(values, places, strict=True):
                column.append(record[place])
    if not lines:
        what = (
            "the file is empty"
            if names is not None
            else f"the file names {len(header)} columns and has no rows"
        )
        raise no_rows(source, what)
    return Table(source, dict(zip(chosen, values, strict=True)), np.array(lines, np.int64), "line")


def _check_options(path: Path, delimiter: str, names: Sequence[str] | None, ragged: str) -> None:
    if names is not None and (
        isinstance(names, str) or not names or not all(isinstance(n, str) for n in names)
    ):
        raise WeftError(f"{path}: options: header: expected a list of names; found {names!r}")
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise WeftError(f"{path}: options: delimiter: expected one character; found {delimiter!r}")
    if ragged not in ("error", "skip"):
        raise WeftError(f"{path}: options: ragged: expected error or skip; found {ragged!r}")


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


def _ragged(
    source: str, line: int, header: list[str], record: list[str], hint: str, given: bool
) -> DataError:
    if len(record) < len(header):
        column, value, more = header[len(record)], None, "this column is missing"
    else:
        column, value = header[-1], record[len(header)]
        more = f"what follows this column is {show(value)}"
    by = "the option header" if given else "the first line"
    message = f"found {len(record)} values; expected {len(header)}, as {by} has; {more}; {hint}"
    return DataError(Problem(source, message, line, column, value, "line"))


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let a text be longer than the csv module's 131,072 characters."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)
