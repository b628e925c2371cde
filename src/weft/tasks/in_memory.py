"""Rows in memory: data frames, lists of dicts, data sets and Arrow tables as the data of a task.

Objects are recognized by their attributes. Neither pandas nor polars nor datasets is imported, so none of
them is needed.

| object | recognized by | a row's name in messages |
|---|---|---|
| `pandas.DataFrame` | `iloc`, `columns` | its index value |
| `polars.DataFrame` | `get_column`, `columns` | its position, from 0 |
| `datasets.Dataset` | `with_format`, `column_names` | its position, from 0 |
| `pyarrow.Table` | `schema`, `column`, `num_rows` | its position, from 0 |
| a list of dicts | a sequence | its position, from 0 |
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.errors import WeftError

EXPECTED = "expected a pandas or polars DataFrame, a datasets.Dataset, a pyarrow.Table or a list of dicts"
RECORD = ("rows_in_memory", "sha256")
"""The keys that a run's file has in place of a file's path, for rows that were in memory."""
_PLAIN = (str, int, float, bool, type(None))
_MISSING = ("NAType", "NaTType")


class RowsInMemory(ABC):
    """The rows of a split, read from an object when they are needed.

    Args:
        data: the object.
        source: what messages call it, such as "data['train']".

    Attributes:
        names: the names of its columns, as strings.
        row_names: what messages call each row: integers, or strings.
    """

    def __init__(self, data: Any, source: str) -> None:
        self.data, self.source = data, source
        self.names: tuple[str, ...] = self._names()
        self.row_names: Sequence[int | str] = self._row_names()

    @abstractmethod
    def _names(self) -> tuple[str, ...]: ...

    @abstractmethod
    def _read(self, at: int) -> list[object]:
        """Return the values of the column at this position."""

    def _row_names(self) -> Sequence[int | str]:
        return range(len(self.data))

    def __len__(self) -> int:
        return len(self.row_names)

    def __repr__(self) -> str:
        return f"{self.source}: {len(self)} rows, columns {', '.join(self.names)}"

    def __deepcopy__(self, memo: object) -> RowsInMemory:
        return self  # a copy of a model shares the data of its tasks, as it shares their files

    def column(self, name: str) -> list[object]:
        """Return a column as Python values; a missing value (None, NaN, NA, NaT) is None."""
        return [_plain(value) for value in self._read(self.names.index(name))]

    def label_names(self, column: str) -> tuple[str, ...] | None:
        """Return the names of the label ids in a column, if the object knows them."""
        return None

    def record(self, columns: Sequence[str]) -> RowsRecord:
        """Return what a run's file records of the rows.

        Args:
            columns: the columns that the task reads; those that are missing are left out.
        """
        digest = hashlib.sha256()
        for name in sorted(set(columns) & set(self.names)):
            values = json.dumps([name, self.column(name)], sort_keys=True, default=repr)
            digest.update(values.encode("utf-8", "surrogatepass"))
        return RowsRecord(len(self), digest.hexdigest())


class PandasRows(RowsInMemory):
    """A `pandas.DataFrame`."""

    def _names(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self.data.columns)

    def _row_names(self) -> Sequence[int | str]:
        index = self.data.index
        values = index.tolist()
        if not index.is_unique:  # after pandas.concat: the value alone would not find the row
            return [f"{value!r} (position {at})" for at, value in enumerate(values)]
        return values if all(type(value) is int for value in values) else [repr(value) for value in values]

    def _read(self, at: int) -> list[object]:
        series = self.data.iloc[:, at]
        pairs = zip(series.tolist(), series.isna().tolist(), strict=True)
        return [None if missing else value for value, missing in pairs]


class PolarsRows(RowsInMemory):
    """A `polars.DataFrame`."""

    def _names(self) -> tuple[str, ...]:
        return tuple(self.data.columns)

    def _read(self, at: int) -> list[object]:
        return list(self.data.get_column(self.names[at]).to_list())


class ArrowRows(RowsInMemory):
    """A `pyarrow.Table` or `pyarrow.RecordBatch`."""

    def _names(self) -> tuple[str, ...]:
        return tuple(self.data.schema.names)

    def _row_names(self) -> Sequence[int | str]:
        return range(self.data.num_rows)

    def _read(self, at: int) -> list[object]:
        return list(self.data.column(at).to_pylist())


class DataSetRows(RowsInMemory):
    """A `datasets.Dataset`."""

    def _names(self) -> tuple[str, ...]:
        return tuple(self.data.column_names)

    def _read(self, at: int) -> list[object]:
        plain = self.data.with_format(None)  # the user may have asked for tensors
        return list(plain[self.names[at]])

    def label_names(self, column: str) -> tuple[str, ...] | None:
        """Return the names of a `ClassLabel`, or of a list of them."""
        feature = (getattr(self.data, "features", None) or {}).get(column)
        names = getattr(getattr(feature, "feature", feature), "names", None)
        return tuple(str(name) for name in names) if isinstance(names, list | tuple) else None


class DictRows(RowsInMemory):
    """A list of dicts."""

    def _names(self) -> tuple[str, ...]:
        known: dict[object, None] = {}
        for at, row in enumerate(self.data):
            if not isinstance(row, Mapping):
                raise WeftError(
                    f"{self.source}, index {at}: found {_short(row)}; expected a dict, such as "
                    "{'text': 'It rains.', 'label': 1}"
                )
            known.update(dict.fromkeys(row))
        self._keys = list(known)
        return tuple(str(key) for key in known)

    def _read(self, at: int) -> list[object]:
        return [row.get(self._keys[at]) for row in self.data]


@dataclass(frozen=True)
class RowsRecord:
    """What a run's file records of rows that were in memory: enough to recognize them, not to read them.

    Attributes:
        rows: the number of rows.
        sha256: the hash of the columns that the task reads.
    """

    rows: int
    sha256: str

    def settings(self) -> dict[str, Any]:
        """The entry of the run file: JSON-serializable."""
        return dict(zip(RECORD, (self.rows, self.sha256), strict=True))

    @classmethod
    def of(cls, entry: object) -> RowsRecord | None:
        """Return the record of a run file's entry; None if the entry is something else."""
        if not isinstance(entry, Mapping) or set(entry) != set(RECORD):
            return None
        return cls(*(entry[key] for key in RECORD))


def as_rows(data: Any, source: str, task: str) -> RowsInMemory:
    """Return the rows of an object; refuse what has no rows that can be read again and again.

    Args:
        data: a frame, data set, table or list of dicts.
        source: what messages call it.
        task: the task's name, for messages.
    """
    rows = rows_or_none(data, source)
    if rows is not None:
        return rows
    raise WeftError(f"task {task!r}: {source}: {_instead(data)}")


def rows_or_none(data: Any, source: str) -> RowsInMemory | None:
    """Return the rows of an object, or None if it is not one of those in the table above."""
    if isinstance(data, RowsInMemory):
        return data
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return PandasRows(data, source)
    if hasattr(data, "with_format") and hasattr(data, "column_names") and hasattr(data, "__len__"):
        return DataSetRows(data, source)
    if hasattr(data, "get_column") and hasattr(data, "columns"):
        return PolarsRows(data, source)
    if hasattr(data, "schema") and hasattr(data, "column") and hasattr(data, "num_rows"):
        return ArrowRows(data, source)
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return DictRows(data, source)
    return None


def _instead(data: Any) -> str:
    """What is wrong with an object that has no rows, and what to write."""
    kind = type(data).__name__
    if isinstance(data, str) or hasattr(data, "__fspath__"):
        return f"found {str(data)!r}; {EXPECTED}; a file is named by files={{'train': {str(data)!r}}}"
    if hasattr(data, "with_format"):
        return (
            f"found a streaming data set ({kind}), which has no length; {EXPECTED}: "
            "list(data.take(10_000)) is a list of dicts"
        )
    if isinstance(data, Mapping):
        return f"found a dict; {EXPECTED}; columns of values become a table by pyarrow.table(…)"
    if hasattr(data, "__next__"):
        return f"found a {kind}, which can be read only once; {EXPECTED}: write list(…)"
    if hasattr(data, "collect") and hasattr(data, "columns"):
        return f"found a {kind}; {EXPECTED}: write .collect()"
    return f"found {_short(data)}; {EXPECTED}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _plain(value: Any) -> Any:
    """Return a value as Python's own types: numpy's scalars and arrays, also inside lists and dicts."""
    if type(value) in _PLAIN:
        return None if value != value else value  # NaN
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if type(value).__name__ in _MISSING else value
