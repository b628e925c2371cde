"""Rows of a file one by one, with constant memory: for predictions, which may run over millions of lines.

Training reads whole columns and refuses a file with a mistake (`weft.data.readers.read`). Here each row is
checked by itself, so that one bad line does not spoil the others.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

from weft.data.readers.delimited import csv_records
from weft.data.readers.dialect import Dialect, long_fields
from weft.data.readers.encoding import open_binary
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.table import Table
from weft.utils.counted import counted

LINE = 1 << 24
"""The most characters of a line of JSON or text. The rest of a longer one is not kept in memory."""
BEGINNING = 80
"""How many characters of such a line are kept, for messages."""


class LongLine(str):
    """The beginning of a line that is too long."""

    __slots__ = ()


class Row(NamedTuple):
    """One row of a file.

    Attributes:
        number: its line in a text file, its row elsewhere, from 1.
        value: a text, a JSON value, or the columns by name.
        wrong: what is wrong with it, if it cannot be read.
    """

    number: int
    value: Any = None
    wrong: str | None = None


Rows = Iterator[Row | None]
"""Rows in the order of the file. None: no row is ready yet; what was read so far should be answered now."""
Lines = Iterator[str | None]
"""Lines in the order of the file, with their ends; None as in `Rows`."""


@dataclass(eq=False)
class RowStream:
    """The rows of a file or a pipe, read while they are used.

    Attributes:
        source: the file, for messages.
        rows: the rows.
        columns: the names of the columns, if the file has them in one place; None: each row has its own.
        unit: what `Row.number` counts, "line" or "row".
        hint: more words for a message about a missing column.
        share: returns how much of the file was read, from 0 to 1; None if that is unknown.
        close: closes the file.
        schema: the arrow schema of its columns, if the file states one.
    """

    source: str
    rows: Rows
    columns: tuple[str, ...] | None = None
    unit: str = "line"
    hint: str = ""
    share: Callable[[], float | None] = lambda: None
    close: Callable[[], object] = lambda: None
    schema: Any = None

    def __enter__(self) -> RowStream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def stream_lines(path: Path, encoding: str, parse: Callable[[Lines], Rows]) -> RowStream:
    """Open a text file whose rows are lines.

    Args:
        path: the file; it is decompressed if its name ends in .gz.
        encoding: Python's name of its encoding.
        parse: `json_rows` or `text_rows`.
    """
    stack, text, share = _opened(path, encoding)
    lines = bounded_lines(text)
    return RowStream(str(path), parse(_explained(path, lines)), None, "line", "", share, stack.close)


def bounded_lines(text: TextIO) -> Iterator[str]:
    """Yield the lines of an open file; of a line that is too long, its beginning as a `LongLine`."""
    for line in iter(partial(text.readline, LINE + 1), ""):
        if len(line) <= LINE:
            yield line
            continue
        rest = line
        while rest and not rest.endswith(("\n", "\r")):
            rest = text.readline(LINE)
        yield LongLine(line[:BEGINNING])


def json_rows(lines: Lines) -> Rows:
    """Yield the JSON value of each line; blank lines are skipped."""
    for number, line in _numbered(lines):
        if line is None:
            yield None
        elif wrong := wrong_line(line):
            yield Row(number, None, wrong)
        else:
            try:
                yield Row(number, json.loads(line))
            except (ValueError, RecursionError) as failed:
                problem = failed.msg if isinstance(failed, json.JSONDecodeError) else failed
                expected = 'expected a line such as {"task": "sentiment", "text": "…"}'
                expected += ", or plain texts and one task for all of them"
                yield Row(number, None, f"not JSON ({problem}); found {show(line.strip(), 40)}; {expected}")


def text_rows(lines: Lines) -> Rows:
    """Yield each line without the white space around it; blank lines are skipped."""
    for number, line in _numbered(lines):
        if line is None:
            yield None
        else:
            yield Row(number, line.strip(), wrong_line(line))


def _numbered(lines: Lines) -> Iterator[tuple[int, str | None]]:
    number = 0
    for line in lines:
        number += line is not None
        if line is None or line.strip():
            yield number, line


def stream_delimited(
    path: Path, dialect: Dialect, names: Sequence[str] | None = None, hint: str = ""
) -> RowStream:
    """Open a csv or tsv file; a row is a dict of strings.

    Args:
        path: the file.
        dialect: how it separates its values.
        names: the names of the columns, if its first record does not name them.
        hint: what to try if a column is missing.
    """
    stack, text, share = _opened(path, dialect.encoding)
    stack.enter_context(long_fields())
    quoting: Any = csv.QUOTE_MINIMAL if dialect.quotes else csv.QUOTE_NONE
    # strict: without it, unbalanced quotes silently swallow the following rows
    reader = csv.reader(_explained(path, text), delimiter=dialect.delimiter, quoting=quoting, strict=True)
    records = _records(reader)
    if names is None:
        first = next(records, None)
        if first is None or isinstance(first[1], str):
            stack.close()
            what = "the file is empty" if first is None else first[1]
            message = f"{what}; expected a first line that names the columns, and one row or more"
            raise DataError(Problem(str(path), message, None if first is None else first[0], unit="line"))
        names = first[1]
    columns = tuple(names)
    hint = f": {hint}" if hint else ""
    return RowStream(str(path), _as_dicts(records, columns), columns, "line", hint, share, stack.close)


def _records(reader: Any) -> Iterator[tuple[int, list[str] | str]]:
    """Yield the records that are not blank, or what is wrong with one, with its first line number."""
    for line, record in csv_records(reader):
        wrong = isinstance(record, str)
        yield line, f"{record}; expected quotes around a text, those inside doubled" if wrong else record


def _as_dicts(records: Iterator[tuple[int, list[str] | str]], columns: tuple[str, ...]) -> Rows:
    for number, record in records:
        if isinstance(record, str):
            yield Row(number, None, record)
        elif len(record) != len(columns):
            message = (
                f"found {counted(len(record), 'value')}; expected {len(columns)}: {', '.join(columns)[:80]}"
            )
            yield Row(number, None, message)
        else:
            wrong = next(filter(None, map(wrong_bytes, record)), None)
            yield Row(number, dict(zip(columns, record, strict=True)), wrong)


def stream_table(table: Table) -> RowStream:
    """Rows of a table that is in memory: formats such as conll are read whole."""
    names = tuple(table.columns)
    numbers = table.row.tolist()

    def rows() -> Rows:
        for at, number in enumerate(numbers):
            yield Row(number, {name: table.columns[name][at] for name in names})

    return RowStream(table.source, rows(), names, table.unit)


def wrong_line(line: str) -> str | None:
    """Return what is wrong with a line before it is parsed, or None."""
    if type(line) is LongLine:
        return f"the line has more than {LINE:,} characters; found {show(line, 40)}; expected a shorter one"
    return wrong_bytes(line)


def wrong_bytes(text: str) -> str | None:
    """Return what is wrong with a text that was decoded with `surrogateescape`, or None."""
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as failed:
        return f"found the byte 0x{ord(text[failed.start]) & 0xFF:02x}; expected UTF-8"
    return None


def first_line(lines: Iterable[str | None]) -> tuple[str, Lines]:
    """Return the first line that is not blank, and all lines again."""
    lines = iter(lines)
    before: list[str | None] = []
    for line in lines:
        before.append(line)
        if line is not None and line.strip():
            return line, chain(before, lines)
    return "", iter(before)


def _opened(path: Path, encoding: str) -> tuple[ExitStack, TextIOWrapper, Callable[[], float | None]]:
    """Open a text file: what closes it, its text, and how much of it was read."""
    stack = ExitStack()
    with _explaining(path):
        raw = stack.enter_context(open_binary(path))
        name = "utf-8-sig" if encoding == "utf-8" else encoding  # a byte order mark is skipped
        text = stack.enter_context(TextIOWrapper(raw, encoding=name, errors="surrogateescape", newline=""))
        size = path.stat().st_size
    return stack, text, lambda: _position(raw) / max(size, 1)


def _position(raw: BinaryIO) -> int:
    """The position in the file as it is on the disk, compressed or not."""
    return 0 if raw.closed else os.lseek(raw.fileno(), 0, os.SEEK_CUR)


def _explained(path: Path, lines: Iterable[str]) -> Iterator[str]:
    with _explaining(path):
        yield from lines


@contextmanager
def _explaining(path: Path) -> Iterator[None]:
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as failed:
        message = f"the file is not complete gzip ({failed}); compress it again, or remove .gz from its name"
        raise DataError(Problem(str(path), message)) from failed
    except UnicodeError as failed:  # UTF-16, which has no bytes to escape
        raise DataError(Problem(str(path), f"{failed}; expected text in one encoding")) from failed
    except OSError as failed:
        message = f"the file cannot be read: {failed.strerror or failed}"
        raise DataError(Problem(str(path), message)) from failed
