"""Walking through nested JSON, with the place of whatever is not as expected."""

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
    """A value inside JSON, and where it is.

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
        """The plain value of a key, which must be there and of the kind."""
        found = self.value.get(key)
        # true and false are whole numbers to Python, never to a file
        if not isinstance(found, kind) or (isinstance(found, bool) and kind is int):
            raise self.wrong(key, found, key in self.value, _WORDS[kind])
        return found

    def child(self, key: str) -> Nested:
        """The object under a key."""
        return self._at(self.get(key, dict), self._path(key))

    def children(self, key: str) -> Iterator[Nested]:
        """The objects of the list under a key."""
        for place, found in enumerate(self.get(key, list)):
            path = f"{self._path(key)}[{place}]"
            if not isinstance(found, dict):
                raise _error(self, path, f"found {show(found)}; expected an object", found)
            yield self._at(found, path)

    def wrong(self, key: str, found: object, there: bool, expected: str) -> DataError:
        """The error for the value of a key."""
        what = f"found {show(found)}" if there else f"there is no such key; there are: {_keys(self.value)}"
        return _error(self, self._path(key), f"{what}; expected {expected}", found)

    def _at(self, value: Any, path: str) -> Nested:
        return Nested(value, self.source, self.row, self.unit, path)

    def _path(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key


class FlatRows:
    """The rows that a nested file is flattened to, as they are found.

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
        """Add a row that is found at this line (or question)."""
        self._numbers.append(number)
        for column, value in zip(self._values, values, strict=True):
            column.append(value)

    def table(
        self, needed: Sequence[str], optional: Sequence[str], empty: str = "the file is empty"
    ) -> Table:
        """The columns that were asked for; no row at all is an error, which says what is `empty`."""
        if not self._numbers:
            raise no_rows(self._source, empty)
        chosen = wanted_columns(self._source, self._columns, needed, optional)
        found = dict(zip(self._columns, self._values, strict=True))
        numbers = np.array(self._numbers, np.int64)
        return Table(self._source, {column: found[column] for column in chosen}, numbers, self._unit)


def _keys(value: dict[str, Any]) -> str:
    return ", ".join(list(map(str, value))[:8]) or "none"


def _error(at: Nested, path: str, message: str, value: object) -> DataError:
    return DataError(Problem(at.source, message, at.row, path, value, at.unit))
