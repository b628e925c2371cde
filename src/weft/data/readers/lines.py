"""Lines of text files: gzip, encodings, and errors for files that are neither."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from weft.data.readers.encoding import check_encoding, file_encoding, open_binary, other_format, read_sample
from weft.data.readers.problem import DataError, Problem


@contextmanager
def text_lines(path: Path, encoding: str | None = None, *, guess: bool = False) -> Iterator[TextIO]:
    r"""Open a text file for iteration by lines; it is decompressed if its name ends in .gz.

    A line ends with \n, \r\n or \r and keeps its end, as the csv module requires. A byte order mark is
    skipped.

    Args:
        path: the file.
        encoding: its encoding; None: detected. UTF-16 and UTF-32 are always detected.
        guess: whether a file that is not Unicode may be cp1252 or latin-1; else it is an error.

    Raises:
        DataError: some bytes cannot be decoded or are not gzip, or the file cannot be opened.
    """
    try:
        name = file_encoding(path, guess=guess) if encoding is None else check_encoding(encoding)
        # utf-8-sig also reads files without a byte order mark
        opened = "utf-8-sig" if name == "utf-8" else name
        with open_binary(path) as raw, TextIOWrapper(raw, encoding=opened, newline="") as text:
            yield text
    except UnicodeError as failed:
        if isinstance(failed, UnicodeEncodeError):
            raise
        raise _undecodable(path, name, encoding is not None) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as failed:
        message = f"the file is not complete gzip ({failed}); compress it again, or remove .gz from its name"
        raise DataError(Problem(str(path), message)) from failed
    except OSError as failed:
        message = f"the file cannot be read: {failed.strerror or failed}"
        raise DataError(Problem(str(path), message)) from failed


def _undecodable(path: Path, encoding: str, configured: bool) -> DataError:
    """Read the file again to find the line of the first invalid byte: block decoding does not report it."""
    found = _first_invalid(path, encoding)
    if found is None:
        return DataError(Problem(str(path), "the file changed while it was read; read it again"))
    line, byte, at = found
    expected = "UTF-8" if encoding.startswith("utf-8") else encoding
    message = f"found the byte {byte} (byte {at} of the file); expected {expected}"
    hint = other_format(read_sample(path, 4)[0]) or _other_encoding(path, encoding, configured)
    message += ", as the key encoding says" * configured
    return DataError(Problem(str(path), f"{message}; {hint}", line, None, byte, "line"))


def _other_encoding(path: Path, encoding: str, configured: bool) -> str:
    """Return what to write: the encoding that fits all bytes, else how to repair the file."""
    try:
        detected = file_encoding(path).removesuffix("-sig")
    except DataError as failed:
        return failed.problems[0].message
    if detected != encoding.removesuffix("-sig"):
        return f"it looks like {detected}. Write: encoding: {detected}"
    if configured:
        return "name the right encoding, or save the file as UTF-8"
    return "the rest of the file is UTF-8, so this line is damaged: repair it. Or write: encoding: NAME"


def _first_invalid(path: Path, encoding: str) -> tuple[int, str, int] | None:
    """Return the line, the byte and its position in the file, from 1, of the first invalid byte."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, read, ended = 1, 0, False
    with open_binary(path) as raw:
        while True:
            block = raw.read(1 << 16)
            read += len(block)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as failed:
                # the decoder puts the incomplete character of earlier blocks in front of the block
                text = failed.object[: failed.start].decode(encoding, errors="replace")
                lines, _ = _line_ends(text, ended)
                at = read - len(failed.object) + failed.start + 1
                return line + lines, f"0x{failed.object[failed.start]:02x}", at
            except UnicodeError:  # no byte order mark in UTF-16
                return 1, f"0x{block[0]:02x}", 1
            if not block:
                return None
            lines, ended = _line_ends(text, ended)
            line += lines


def _line_ends(text: str, ended: bool) -> tuple[int, bool]:
    r"""Count the line ends of a block; a \n at its beginning may belong to a \r that ended the last one."""
    count = text.count("\n") + text.count("\r") - text.count("\r\n")
    return count - (ended and text.startswith("\n")), text.endswith("\r") if text else ended
