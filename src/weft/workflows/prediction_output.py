"""Writing predictions: JSON lines to standard output, or a file whose ending decides on the format.

How tables (csv, tsv, parquet) are made of rows is in `weft.workflows.prediction_tables`, their columns in
`weft.workflows.prediction_columns`.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import IO, Any, Protocol

from weft.errors import WeftError
from weft.utils.files import sync
from weft.utils.temporary import Temporary, create_file
from weft.utils.write_errors import CannotWrite, explained, explained_stream
from weft.workflows.prediction_columns import UNKNOWN, Columns
from weft.workflows.prediction_tables import TABLES, Kept, open_text, write_table

PredictionRow = Mapping[str, Any]

_CONTROL = re.compile("[\x7f-\x9f]")


class Output(Protocol):
    """Where predictions go; closed in any case, and what was written until then is kept."""

    def expect(self, columns: Columns) -> None:
        """Note what is known about the columns before the first row; only tables need it."""

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


def _plain(value: Any, name: str = "") -> Any:
    """A value of an input file as JSON has it; `name` is that of its column."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise WeftError(
            f"the column {name!r} holds {value[:40]!r}, which is no text; JSON and csv cannot hold it: leave "
            "the column out by --keep COLUMN,COLUMN, or write parquet: --out FILE.parquet"
        ) from None


class _Lines:
    """JSON lines on an open stream, flushed with every call."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def expect(self, columns: Columns) -> None:
        pass

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
        self._stream: IO[str] = open_text(self._rows.path, self._gzip and self._form == "jsonl")
        self._known = UNKNOWN
        self._kept: Kept | None = None
        self._kept_file: Temporary | None = None
        self._columns: dict[str, None] = {}
        self._written = False

    def expect(self, columns: Columns) -> None:
        if self._form not in TABLES:
            return
        self._known = columns
        if self._form == "parquet" and columns.kept:
            with explained(self._file):
                self._kept_file = create_file(self._file)
                self._kept = Kept(self._kept_file.path, columns.kept)

    def write(self, rows: list[dict[str, Any]]) -> None:
        try:
            with explained(self._file):
                self._write(rows)
        except CannotWrite:
            raise
        except WeftError as wrong:
            raise WeftError(f"{self._file}: {wrong}") from None
        self._written = self._written or bool(rows)

    def _write(self, rows: list[dict[str, Any]]) -> None:
        if self._form in TABLES:
            rows = [self._known.flat(row) for row in rows]
            for row in rows:
                self._columns.update(dict.fromkeys(row))
        batch = None if self._kept is None else self._kept.taken(rows)
        lines = "".join(map(as_line, rows))
        if self._kept is not None:
            self._kept.write(batch)
        self._stream.write(lines)
        self._stream.flush()

    def close(self, complete: bool) -> None:
        try:
            with explained(self._file):
                self._stream.close()
                if self._kept is not None:
                    self._kept.close()
                self._complete(complete)
        finally:
            with contextlib.suppress(OSError):
                self._stream.close()
            self._new.remove()
            self._rows.remove()
            if self._kept_file is not None:
                self._kept_file.remove()

    def _complete(self, complete: bool) -> None:
        # with nothing to show for it, an error leaves the old file as it was
        if not complete and (self._whole or not self._written):
            return
        if self._form in TABLES:
            kept = None if self._kept is None else self._kept.file
            columns, gz = self._known.ordered(self._columns), self._gzip
            write_table(self._form, self._rows.path, kept, self._new.path, columns, self._known, gz)
        sync(self._new.path)
        if self._before is not None:
            self._before(self._new.path)
        os.replace(self._new.path, self._file)


def quiet_standard_output() -> None:
    """After a broken pipe: send what is left to nowhere, or Python complains as it exits."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
