"""Text for a terminal: what a file holds must not move the cursor, clear the screen or hide a line."""

from __future__ import annotations

import re

OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, without tabs and line ends
    "\u202a-\u202e\u2066-\u2069"  # what reverses the direction of the text after it
    "\ud800-\udfff]"  # halves of surrogate pairs, which no stream can encode
)


def printable(text: object) -> str:
    r"""Return a text with every character that a terminal would obey, or could not print, as its escape.

    Example:
        >>> printable("the label \x1b[2J")
        'the label \\x1b[2J'
    """
    return OBEYED.sub(lambda match: match[0].encode("unicode_escape").decode(), str(text))
