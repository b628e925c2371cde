"""What a kind makes of the values of a file: an example's input, the values that are wrong, and oddities."""

from __future__ import annotations

from typing import NamedTuple


class ColumnValues(NamedTuple):
    """The raw values of one example's columns, as read from a file.

    Attributes:
        texts: one value per text of the task.
        choices: one value per `choices` column.
        marks: the two values of each mark.
    """

    texts: tuple[object, ...]
    choices: tuple[object, ...] = ()
    marks: tuple[tuple[object, object], ...] = ()


class BadValue(NamedTuple):
    """A value that cannot be used: its column, the value, and what is wrong with it."""

    column: str
    value: object
    message: str


class Inputs(NamedTuple):
    """The encoder's input for one example.

    Attributes:
        texts: the example's texts; the kind defines their meaning.
        marks: (text, first character, last character + 1) of each mark.
    """

    texts: tuple[str, ...]
    marks: tuple[tuple[int, int, int], ...] = ()


class Oddity(NamedTuple):
    """Something that `weft check` reports about a split, and the first example concerned, if there is one."""

    message: str
    column: str | None = None
    value: object = None
    first: int | None = None
    severity: str = "warning"
