"""csv and tsv files. The first line or the option `header` names the columns.

In csv a text with a comma, a quote or a line break must be quoted, and quotes inside it are doubled. In tsv a
quote is a plain character, because public tsv files (such as GLUE's) do not escape texts; a text in tsv
therefore cannot contain a tab or a line break.
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
    True: "in csv, a text with a comma, quote or line break must be quoted, with the quotes inside doubled",
    False: "in tsv, a text has no tab or line break, and quotes are plain characters; use csv or jsonl",
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
    """Read some columns of a csv file; every value is a string.

    Args:
        path: the file.
        columns: the required columns.
        optional: columns that are read if the file has them.
        header: the names of the columns, for a file whose first line does not name them.
        delimiter: the character between values.
        quotes: whether a text may be quoted.
        ragged: how to treat a line with too few or too many values: `error`, or `skip` to leave it out.
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
    """Read some columns of a tsv file; every value is a string. The options are those of `read_csv`."""
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
        # strict: without it, unbalanced quotes silently swallow the following rows
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
        positions = [header.index(column) for column in chosen]
        values: list[list[object]] = [[] for _ in positions]
        for line, record in records:
            if len(record) != len(header):
                if ragged == "skip":
                    continue
                raise _ragged(source, line, header, record, hint, names is not None)
            lines.append(line)
            for column, position in zip(values, positions, strict=True):
                column.append(record[position])
    if not lines:
        reason = (
            "the file is empty"
            if names is not None
            else f"the file names {len(header)} columns and has no rows"
        )
        raise no_rows(source, reason)
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
    """Yield the records that are not blank, each with its first line number."""
    while True:
        line = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as failed:
            end = "" if reader.line_num <= line else f" in the record that ends in line {reader.line_num}"
            message = f"broken quotes{end} ({failed}); {hint}"
            raise DataError(Problem(source, message, line, unit="line")) from failed
        if record:
            yield line, record


def _ragged(
    source: str, line: int, header: list[str], record: list[str], hint: str, has_header_option: bool
) -> DataError:
    if len(record) < len(header):
        column, value, detail = header[len(record)], None, "this column is missing"
    else:
        column, value = header[-1], record[len(header)]
        detail = f"this column is followed by {show(value)}"
    origin = "the option header" if has_header_option else "the first line"
    message = f"found {len(record)} values; expected {len(header)}, as {origin} has; {detail}; {hint}"
    return DataError(Problem(source, message, line, column, value, "line"))


@contextmanager
def _long_fields() -> Iterator[None]:
    """Allow texts longer than the csv module's limit of 131,072 characters."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)
