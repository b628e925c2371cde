"""Lines of a pipe or of standard input, as they arrive."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Iterable, Iterator

from weft.data.readers.streamed import BEGINNING, LINE, Lines, LongLine
from weft.errors import WeftError

CHUNK = 1 << 16
WAIT = 0.05
"""Seconds without a new line after which the lines so far should be answered."""


def standard_input() -> Lines:
    """Yield the lines of standard input; None whenever nothing more is waiting.

    A file (`weft predict … - < FILE`) is always ready: it gives no None.
    """
    if sys.stdin is None:
        raise WeftError("standard input is closed; name a file instead of -")
    try:
        descriptor = sys.stdin.fileno()
    except (io.UnsupportedOperation, ValueError, AttributeError):
        return _decoded(getattr(sys.stdin, "buffer", None) or (line.encode() for line in sys.stdin))
    return lines_of(descriptor)


def lines_of(descriptor: int) -> Lines:
    """Yield the lines of an open file or pipe; None whenever nothing more is waiting."""
    return _decoded(_lines(descriptor))


def _lines(descriptor: int) -> Iterator[bytes | LongLine | None]:
    parts: list[bytes] = []  # of a line whose end has not arrived
    size = 0
    fresh = False
    while True:
        if fresh and not _ready(descriptor):
            yield None
            fresh = False
        chunk = os.read(descriptor, CHUNK)
        if not chunk:
            break
        *lines, rest = chunk.split(b"\n")
        if lines:
            yield _line(parts, lines[0], size)
            yield from lines[1:]
            parts, size, fresh = [], 0, True
        if size <= LINE:  # of a line that is too long, only the beginning is kept
            parts.append(rest)
        size += len(rest)
    if last := _line(parts, b"", size):
        yield last


def _line(parts: list[bytes], last: bytes, size: int) -> bytes | LongLine:
    """Return a line from its parts, [size] bytes, and its end."""
    if size + len(last) <= LINE:
        return b"".join([*parts, last])
    return LongLine(b"".join(parts)[:BEGINNING].decode("utf-8", "replace"))


def _decoded(lines: Iterable[bytes | LongLine | None]) -> Lines:
    first = True
    for line in lines:
        if line is None or isinstance(line, str):
            yield line
            continue
        encoding = "utf-8-sig" if first else "utf-8"
        yield line.decode(encoding, "surrogateescape")
        first = False


def _ready(descriptor: int) -> bool:
    try:
        return bool(select.select([descriptor], [], [], WAIT)[0])
    except (OSError, ValueError):  # Windows can only wait for sockets
        return True
