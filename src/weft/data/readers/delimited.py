"""csv and tsv files. The first line or the option `header` names the columns.

The encoding, the delimiter and whether quotes count are detected if the format's defaults do not fit.
In csv a text with a comma, a quote or a line break must be quoted, and quotes inside it are doubled. In tsv a
quote is a plain character, because public tsv files (such as GLUE's) do not escape texts; a text in tsv
therefore cannot contain a tab or a line break.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.data.readers.dialect import Dialect, long_fields
from weft.data.readers.dialect_choice import Keys, choose_dialect
from weft.data.readers.lines import text_lines
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.short_strings import ShortStrings
from weft.data.readers.table import Table, no_rows, wanted_columns
from weft.errors import WeftError
from weft.utils.counted import counted

_CSV, _TSV = Dialect(), Dialect(delimiter="\t", quotes=False)
_HINTS = {
    True: "a text with a {0}, quote or line break must be quoted, with the quotes inside doubled",
    False: "a text has no {0} or line break, and quotes are plain characters; use csv or jsonl",
}


def read_csv(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    *,
    header: Sequence[str] | None = None,
    delimiter: str | None = None,
    quotes: bool | None = None,
    encoding: str | None = None,
    ragged: str = "error",
) -> Table:
    """Read some columns of a csv file; every value is a string.

    The delimiter is a comma and texts may be quoted, unless the file cannot be read so and looks different:
    see `weft.data.readers.dialect_choice`.

    Args:
        path: the file.
        columns: the required columns.
        optional: columns that are read if the file has them.
        header: the names of the columns, for a file whose first line does not name them.
        delimiter: the character between values; None: detected.
        quotes: whether a text may be quoted; None: detected.
        encoding: Python's name of the encoding; None: detected.
        ragged: how to treat a line with too few or too many values: `error`, or `skip` to leave it out.
    """
    return _read(path, columns, optional, _CSV, Keys(encoding, delimiter, quotes), header, ragged)


def read_tsv(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    *,
    header: Sequence[str] | None = None,
    delimiter: str | None = None,
    quotes: bool | None = None,
    encoding: str | None = None,
    ragged: str = "error",
) -> Table:
    """Read some columns of a tsv file; every value is a string.

    The delimiter is a tab and quotes are plain characters; otherwise as `read_csv`.
    """
    return _read(path, columns, optional, _TSV, Keys(encoding, delimiter, quotes), header, ragged)


def _read(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str],
    plain: Dialect,
    keys: Keys,
    names: Sequence[str] | None,
    ragged: str,
) -> Table:
    _check_options(path, names, ragged)
    keys = keys.checked(path)
    choice = choose_dialect(path, plain, keys, columns, names, ragged == "skip")
    try:
        table = _parsed(path, columns, optional, choice.dialect, keys.encoding, names, ragged)
    except DataError as failed:
        if not choice.hint:
            raise
        first, *others = failed.problems
        raise DataError(replace(first, message=f"{first.message}: {choice.hint}"), *others) from None
    return replace(table, notes=choice.notes)


def _parsed(
    path: Path,
    columns: Sequence[str],
    optional: Sequence[str],
    dialect: Dialect,
    encoding: str | None,
    names: Sequence[str] | None,
    ragged: str,
) -> Table:
    delimiter, source = dialect.delimiter, str(path)
    hint = _hint(dialect)
    same = ShortStrings()
    lines = array("q")  # a list would hold one object per number
    quoting: Any = csv.QUOTE_MINIMAL if dialect.quotes else csv.QUOTE_NONE
    with text_lines(path, encoding, guess=True) as text, long_fields():
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
        if len(header) == 1 and header[0] not in columns and names is None:
            first = f"; the file has one column {show(header[0], 60)}"
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
                column.append(same(record[position]))
    if not lines:
        reason = (
            "the file is empty"
            if names is not None
            else f"the file names {len(header)} columns and has no rows"
        )
        raise no_rows(source, reason)
    return Table(source, dict(zip(chosen, values, strict=True)), np.array(lines, np.int64), "line", own=True)


def _hint(dialect: Dialect) -> str:
    """Return the rules of the dialect, for messages."""
    names = {",": "comma", "\t": "tab", ";": "semicolon"}
    form = {True: "csv", False: "tsv"}[dialect.quotes]
    return (
        f"in {form}, {_HINTS[dialect.quotes].format(names.get(dialect.delimiter, repr(dialect.delimiter)))}"
    )


def _check_options(path: Path, names: Sequence[str] | None, ragged: str) -> None:
    if names is not None and (
        isinstance(names, str) or not names or not all(isinstance(n, str) for n in names)
    ):
        raise WeftError(f"{path}: options: header: expected a list of names; found {names!r}")
    if ragged not in ("error", "skip"):
        raise WeftError(f"{path}: options: ragged: expected error or skip; found {ragged!r}")


def _records(reader: Any, source: str, hint: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the records that are not blank, each with its first line number."""
    for line, record in csv_records(reader):
        if isinstance(record, str):
            raise DataError(Problem(source, f"{record}; {hint}", line, unit="line"))
        yield line, record


def csv_records(reader: Any) -> Iterator[tuple[int, list[str] | str]]:
    """Yield the records that are not blank, or what is wrong with one, with its first line number.

    After a record that is wrong, the reader goes on with the next line.
    """
    while True:
        line = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as failed:
            end = "" if reader.line_num <= line else f" in the record that ends in line {reader.line_num}"
            yield line, f"broken quotes{end} ({failed})"
            continue
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
    message = (
        f"found {counted(len(record), 'value')}; expected {len(header)}, as {origin} has; {detail}; {hint}"
    )
    return DataError(Problem(source, message, line, column, value, "line"))
