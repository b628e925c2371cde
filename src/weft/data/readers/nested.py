"""Access to nested JSON, with errors that name the path of an unexpected value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.table import Table, no_rows, wanted_columns

_WORDS: dict[type, str] = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}


@dataclass(frozen=True)
class Nested:
    """A value inside JSON, and its path.

    Attributes:
        value: the value.
        source: the file.
        row: the line, or the number of the question.
        unit: what `row` counts.
        path: the keys that lead to it, such as `passage.questions[2]`.
    """

    value: Any
    source: str
    row: int | None
    unit: str
    path: str = ""

    def get(self, key: str, kind: type) -> Any:
        """Return the value of a key; refuse a missing one and one of a different type."""
        value = self.value.get(key)
        # true and false are integers in Python but not in a file
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise self.wrong(key, value, key in self.value, _WORDS[kind])
        return value

    def child(self, key: str) -> Nested:
        """Return the object under a key."""
        return self._at(self.get(key, dict), self._path(key))

    def children(self, key: str) -> Iterator[Nested]:
        """Yield the objects of the list under a key."""
        for index, item in enumerate(self.get(key, list)):
            path = f"{self._path(key)}[{index}]"
            if not isinstance(item, dict):
                raise _error(self, path, f"found {show(item)}; expected an object", item)
            yield self._at(item, path)

    def wrong(self, key: str, value: object, exists: bool, expected: str) -> DataError:
        """Return the error for the value of a key."""
        description = (
            f"found {show(value)}" if exists else f"there is no such key; there are: {_keys(self.value)}"
        )
        return _error(self, self._path(key), f"{description}; expected {expected}", value)

    def _at(self, value: Any, path: str) -> Nested:
        return Nested(value, self.source, self.row, self.unit, path)

    def _path(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key


class FlatRows:
    """The flat rows of a nested file, collected one by one.

    Args:
        source: the file.
        columns: the columns of every row, in the order of its values.
        unit: what row numbers count.
    """

    def __init__(self, source: str, columns: Sequence[str], unit: str = "line") -> None:
        self._source, self._columns, self._unit = source, columns, unit
        self._values: list[list[object]] = [[] for _ in columns]
        self._numbers: list[int] = []

    def add(self, number: int, *values: object) -> None:
        """Add a row from this line (or question)."""
        self._numbers.append(number)
        for column, value in zip(self._values, values, strict=True):
            column.append(value)

    def table(
        self, needed: Sequence[str], optional: Sequence[str], empty: str = "the file is empty"
    ) -> Table:
        """Return the requested columns; without any row, raise an error with the message `empty`."""
        if not self._numbers:
            raise no_rows(self._source, empty)
        chosen = wanted_columns(self._source, self._columns, needed, optional)
        values = dict(zip(self._columns, self._values, strict=True))
        numbers = np.array(self._numbers, np.int64)
        return Table(self._source, {column: values[column] for column in chosen}, numbers, self._unit)


def _keys(value: dict[str, Any]) -> str:
    return ", ".join(list(map(str, value))[:8]) or "none"


def _error(at: Nested, path: str, message: str, value: object) -> DataError:
    return DataError(Problem(at.source, message, at.row, path, value, at.unit))
