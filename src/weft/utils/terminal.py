"""Keeps control characters out of the terminal.

Labels, column names and file names come from data. One with an escape sequence in it could recolor the
terminal, overwrite lines above or set the window's title, and one with a bidirectional override shows its
letters in a different order. They are shown as `\\x1b` and `\\u202e` instead. JSON needs none of this: it
escapes them itself.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and newline
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # those that change the direction of writing
    "\u2028\u2029\ufeff"  # separators of lines, and the byte order mark
    "\ud800-\udfff]"  # bytes of a file's name that are not UTF-8, which cannot be printed at all
)
_LINE_ENDS = re.compile("[\t\n]")


def escaped(text: str) -> str:
    """Return a text with its control characters escaped; tabs and newlines stay.

    Example:
        >>> escaped("\\x1b[31mred")
        '\\\\x1b[31mred'
    """
    return _UNSAFE.sub(_escape, text) if _UNSAFE.search(text) else text


def escaped_line(text: str) -> str:
    """Return a text as one line, with tabs and newlines escaped too."""
    return _LINE_ENDS.sub(_escape, escaped(text))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code in (9, 10, 13):
        return {9: "\\t", 10: "\\n", 13: "\\r"}[code]
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


class EscapingStream:
    """A text stream that escapes control characters; all else is that of the stream below.

    Args:
        below: the stream that is written to.
    """

    def __init__(self, below: TextIO) -> None:
        self.below = below

    def write(self, text: str) -> int:
        """Write a text; returns its length."""
        self.below.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.below, name)


@contextmanager
def escaping_output() -> Iterator[None]:
    """Inside, standard output and standard error escape control characters."""
    out, error = (
        stream if stream is None or isinstance(stream, EscapingStream) else EscapingStream(stream)
        for stream in (sys.stdout, sys.stderr)
    )
    with redirect_stdout(cast("TextIO", out)), redirect_stderr(cast("TextIO", error)):
        yield


def raw_stream(stream: TextIO) -> TextIO:
    """Return the stream below an escaping one, for weft's own colors and progress bars."""
    return stream.below if isinstance(stream, EscapingStream) else stream


def console(*, stderr: bool = False, **settings: Any) -> Console:
    """Return rich's console; what is printed on it must be escaped, since it writes to the raw stream."""
    from rich.console import Console

    return Console(file=raw_stream(sys.stderr if stderr else sys.stdout), **settings)
