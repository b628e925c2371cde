"""Text files as lines: gzip, UTF-8, and what to say where a file is neither."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from weft.data.readers.problem import DataError, Problem

# a file of another format under a wrong name is told by its first bytes
_LOOKS_LIKE = {
    b"\xff\xfe": "it looks like UTF-16: save it as UTF-8",
    b"\xfe\xff": "it looks like UTF-16: save it as UTF-8",
    b"\x1f\x8b": "it looks like gzip: let its name end in .gz",
    b"PAR1": "it looks like parquet: let its name end in .parquet",
    b"PK\x03\x04": "it looks like a zip or Excel file: save it as csv, UTF-8",
}


@contextmanager
def text_lines(path: Path) -> Iterator[TextIO]:
    r"""Open a text file, packed by gzip where its name ends in .gz, to be iterated by lines.

    A line ends with \n, \r\n or \r and keeps its end, as the csv module wants it. A byte order mark is
    skipped.

    Raises:
        DataError: bytes that are not UTF-8 or not gzip, at whatever line, or a file that cannot be opened.
    """
    try:
        with _binary(path) as raw, TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as failed:
        message = f"the file is not whole gzip ({failed}); pack it again, or take .gz off a name that is not"
        raise DataError(Problem(str(path), message)) from failed
    except OSError as failed:
        message = f"the file cannot be read: {failed.strerror or failed}"
        raise DataError(Problem(str(path), message)) from failed


def _binary(path: Path) -> BinaryIO:
    if path.name.lower().endswith(".gz"):
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb")


def _not_utf8(path: Path) -> DataError:
    """Find the line of the first wrong byte: decoding in blocks does not say it, so all is read again."""
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
