"""Writing predictions: JSON lines to standard output, or a file whose ending decides on the format.

A table (csv, tsv, parquet) needs its columns before its first row, and predictions of mixed tasks have
different ones. So rows are first written to a temporary file of JSON lines, and the table is made of it at
the end, with constant memory.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol, cast

from weft.errors import WeftError
from weft.utils.files import sync
from weft.utils.temporary import create_file
from weft.utils.write_errors import explained, explained_stream

TABLES = ("csv", "tsv", "parquet")
BATCH = 4096
"""How many rows of a table are in memory at once."""

PredictionRow = Mapping[str, Any]

_CONTROL = re.compile("[\x7f-\x9f]")


class Output(Protocol):
    """Where predictions go; closed in any case, and what was written until then is kept."""

    def write(self, rows: list[dict[str, Any]]) -> None:
        """Write some rows, so that a reader sees them at once."""

    def close(self, complete: bool) -> None:
        """End the output; `complete` is False if an error has ended it early."""


def open_output(file: Path | None) -> Output:
    """Return the output for a file; None: JSON lines on standard output."""
    if file is None:
        return _Lines(sys.stdout)
    file = Path(os.path.realpath(file))  # a link stays one
    check_output(file)
    if file.exists() and not file.is_file():
        return _Lines(file.open("w", encoding="utf-8"))  # a pipe or a device cannot be replaced
    return _Atomic(file)


def open_whole(file: Path, form: str, before: Callable[[Path], object]) -> Output:
    """Return the output for a file that appears only if it is complete.

    Args:
        file: the file; it is compressed if its name ends in .gz.
        form: csv, tsv, parquet or jsonl.
        before: called with the complete file, under a temporary name, just before it gets its own.
    """
    return _Atomic(file, form, whole=True, before=before)


def check_output(file: Path, flag: str = "--out") -> None:
    """Refuse a folder as an output file, and one in a folder that does not exist.

    Args:
        file: the file.
        flag: the option that names it, for messages.
    """
    if file.is_dir():
        raise WeftError(f"{flag} {file}: found a folder; expected the name of a file")
    if not file.absolute().parent.is_dir():
        raise WeftError(f"{flag} {file}: there is no folder {str(file.absolute().parent)!r}; make it first")


def output_form(file: Path) -> str:
    """Return `csv`, `tsv` or `parquet` by the ending of a name; any other is `jsonl`."""
    name = file.name.lower().removesuffix(".gz")
    return next((form for form in TABLES if name.endswith(f".{form}")), "jsonl")


def as_line(row: PredictionRow) -> str:
    """Return a row as one line of JSON; it never holds NaN."""
    text = json.dumps(_plain(row), ensure_ascii=False, allow_nan=False) + "\n"
    if text.isascii() and "\x7f" not in text:
        return text
    # control characters that JSON lets pass: a terminal obeys them, and `weft.utils.terminal` knows no JSON
    text = _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    # half of a surrogate pair in the input, which UTF-8 cannot hold: as JSON escapes it
    return text.encode("utf-8", "backslashreplace").decode()


def rounded(value: Any, digits: int) -> Any:
    """Round every number with a fraction; NaN and infinity become None."""
    if isinstance(value, float):
        return round(value, digits) + 0.0 if math.isfinite(value) else None  # + 0.0: not -0.0
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    return value


def flat(row: PredictionRow, prefix: str = "") -> dict[str, Any]:
    """Return a row without nested objects: {"p": {"no": 0.1}} → {"p.no": 0.1}."""
    columns: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            columns |= flat(value, f"{prefix}{key}.")
        else:
            columns[f"{prefix}{key}"] = value
    return columns


def _plain(value: Any) -> Any:
    """A value of an input file as JSON has it."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class _Lines:
    """JSON lines on an open stream, flushed with every call."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, rows: list[dict[str, Any]]) -> None:
        with explained_stream(getattr(self._stream, "name", "the output")):
            self._stream.write("".join(map(as_line, rows)))
            self._stream.flush()

    def close(self, complete: bool) -> None:
        if self._stream is not sys.stdout:
            self._stream.close()


class _Atomic:
    """A file that appears under its name when it is complete, or when an error ends it early.

    Args:
        file: the file.
        form: its format; None: by its ending.
        whole: whether an error that ends it early leaves the old file, or none.
        before: called with the complete file just before it gets its name.
    """

    def __init__(
        self,
        file: Path,
        form: str | None = None,
        whole: bool = False,
        before: Callable[[Path], object] | None = None,
    ) -> None:
        self._file, self._form = file, form or output_form(file)
        self._whole, self._before = whole, before
        self._gzip = file.name.lower().endswith(".gz")
        with explained(file):
            self._new = create_file(file)
            self._rows = create_file(file) if self._form in TABLES else self._new
        self._stream: IO[str] = _open(self._rows.path, self._gzip and self._form == "jsonl")
        self._columns: dict[str, None] = {}
        self._written = False

    def write(self, rows: list[dict[str, Any]]) -> None:
        if self._form in TABLES:
            rows = [flat(row) for row in rows]
            for row in rows:
                self._columns.update(dict.fromkeys(row))
        with explained(self._file):
            self._stream.write("".join(map(as_line, rows)))
            self._stream.flush()
        self._written = self._written or bool(rows)

    def close(self, complete: bool) -> None:
        try:
            with explained(self._file):
                self._stream.close()
                self._complete(complete)
        finally:
            with contextlib.suppress(OSError):
                self._stream.close()
            self._new.remove()
            self._rows.remove()

    def _complete(self, complete: bool) -> None:
        # with nothing to show for it, an error leaves the old file as it was
        if not complete and (self._whole or not self._written):
            return
        if self._form in TABLES:
            _TABLES[self._form](self._rows.path, self._new.path, list(self._columns), self._gzip)
        sync(self._new.path)
        if self._before is not None:
            self._before(self._new.path)
        os.replace(self._new.path, self._file)


def _open(file: Path, compress: bool) -> IO[str]:
    if compress:
        return cast("IO[str]", gzip.open(file, "wt", encoding="utf-8"))
    return file.open("w", encoding="utf-8", newline="")


def _batches(rows: Path) -> Iterator[list[dict[str, Any]]]:
    with rows.open(encoding="utf-8") as lines:
        while batch := [json.loads(line) for line in islice(lines, BATCH)]:
            yield batch


def _write_delimited(rows: Path, file: Path, columns: list[str], delimiter: str, compress: bool) -> None:
    with _open(file, compress) as stream:
        writer = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
        writer.writerow(columns)
        for batch in _batches(rows):
            writer.writerows([_cell(row.get(column)) for column in columns] for row in batch)


def _cell(value: Any) -> Any:
    """A list as JSON; a missing value as an empty cell."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | bool) else value


def _write_parquet(rows: Path, file: Path, columns: list[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    types: dict[str, Any] = dict.fromkeys(columns, pa.null())
    for batch in _batches(rows):
        for column in columns:
            values = [row.get(column) for row in batch]
            types[column] = _common_type(types[column], values)
    schema = pa.schema(list(types.items()))
    with pq.ParquetWriter(file, schema) as writer:
        for batch in _batches(rows):
            arrays = [
                pa.array([_typed(row.get(column), types[column]) for row in batch], types[column])
                for column in columns
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _common_type(before: Any, values: list[Any]) -> Any:
    """The arrow type of a column so far; values that have no common type are written as text."""
    import pyarrow as pa

    try:
        found = pa.infer_type(values)
        both = [pa.schema([("x", before)]), pa.schema([("x", found)])]
        return pa.unify_schemas(both, promote_options="permissive").field("x").type
    except (pa.ArrowException, TypeError, ValueError):
        return pa.string()


def _typed(value: Any, kind: Any) -> Any:
    if value is None or isinstance(value, str) or str(kind) != "string":
        return value
    return json.dumps(value, ensure_ascii=False)


_TABLES: dict[str, Callable[[Path, Path, list[str], bool], None]] = {
    "csv": lambda rows, file, columns, compress: _write_delimited(rows, file, columns, ",", compress),
    "tsv": lambda rows, file, columns, compress: _write_delimited(rows, file, columns, "\t", compress),
    "parquet": lambda rows, file, columns, compress: _write_parquet(rows, file, columns),
}


def quiet_standard_output() -> None:
    """After a broken pipe: send what is left to nowhere, or Python complains as it exits."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
