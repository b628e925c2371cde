"""Equal short strings of a file as one object: a label of millions of rows is held once."""

from __future__ import annotations

LONGEST = 32
"""Longer strings are hardly ever repeated."""
MOST = 10_000
"""How many different strings are remembered: those of a column of ids are all different."""


class ShortStrings:
    """Returns the same object for equal short strings; any other value as it is.

    Example:
        >>> same = ShortStrings()
        >>> same("".join(["y", "es"])) is same("yes")
        True
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __call__(self, value: object) -> object:
        """Return the object to keep."""
        if type(value) is not str or len(value) > LONGEST:
            return value
        if (found := self._known.get(value)) is not None:
            return found
        if len(self._known) < MOST:
            self._known[value] = value
        return value
