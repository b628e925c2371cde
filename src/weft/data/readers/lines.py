"""Lines of text files: gzip, UTF-8, and errors for files that are neither."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from weft.data.readers.problem import DataError, Problem

# the first bytes identify a file of another format with a wrong name
_LOOKS_LIKE = {
    b"\xff\xfe": "it looks like UTF-16: save it as UTF-8",
    b"\xfe\xff": "it looks like UTF-16: save it as UTF-8",
    b"\x1f\x8b": "it looks like gzip: rename it to end in .gz",
    b"PAR1": "it looks like parquet: rename it to end in .parquet",
    b"PK\x03\x04": "it looks like a zip or Excel file: save it as csv, UTF-8",
}


@contextmanager
def text_lines(path: Path) -> Iterator[TextIO]:
    r"""Open a text file for iteration by lines; it is decompressed if its name ends in .gz.

    A line ends with \n, \r\n or \r and keeps its end, as the csv module requires. A byte order mark is
    skipped.

    Raises:
        DataError: some bytes are not UTF-8 or not gzip, or the file cannot be opened.
    """
    try:
        with _binary(path) as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as failed:
        message = f"the file is not complete gzip ({failed}); compress it again, or remove .gz from its name"
        raise DataError(Problem(str(path), message)) from failed
    except OSError as failed:
        message = f"the file cannot be read: {failed.strerror or failed}"
        raise DataError(Problem(str(path), message)) from failed


def _binary(path: Path) -> BinaryIO:
    if path.name.lower().endswith(".gz"):
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb")


def _not_utf8(path: Path) -> DataError:
    """Read the file again to find the line of the first invalid byte: block decoding does not report it."""
    with _binary(path) as raw:
        data = raw.read()
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as failed:
        before = data[: failed.start]
        line = 1 + before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n")
        byte = f"0x{data[failed.start]:02x}"
    else:
        return DataError(Problem(str(path), "the file changed while it was read; read it again"))
    hint = "save it as UTF-8"
    for start, words in _LOOKS_LIKE.items():
        if data.startswith(start):
            hint = words
    return DataError(
        Problem(str(path), f"found the byte {byte}; expected UTF-8; {hint}", line, None, byte, "line")
    )
