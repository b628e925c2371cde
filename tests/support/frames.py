"""Objects that hold rows: pandas and polars if they are installed, Arrow tables, lists, and a data set.

`DataSet` stands in for `datasets.Dataset`, of which weft uses the few attributes below.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

Rows = Sequence[Mapping[str, Any]]


class DataSet:
    """The attributes of `datasets.Dataset` that weft reads; formatted as tensors it gives no values."""

    def __init__(
        self,
        rows: Rows,
        names: Mapping[str, list[str]] | None = None,
        nested: bool = False,
        formatted: str | None = "torch",
    ) -> None:
        self._rows, self._formatted = list(rows), formatted
        self.column_names = list(self._rows[0])
        labels = {key: SimpleNamespace(names=value) for key, value in (names or {}).items()}
        self.features = {k: SimpleNamespace(feature=v) for k, v in labels.items()} if nested else labels

    def __len__(self) -> int:
        return len(self._rows)

    def with_format(self, form: str | None) -> DataSet:
        return DataSet(self._rows, formatted=form)

    def __getitem__(self, column: str) -> list[Any]:
        if self._formatted is not None:
            return [object()] * len(self._rows)
        return [row[column] for row in self._rows]


def _pandas(rows: Rows) -> Any:
    import pandas as pd

    return pd.DataFrame(list(rows))


def _polars(rows: Rows) -> Any:
    import polars as pl

    return pl.DataFrame(list(rows))


_MADE: dict[str, Callable[[Rows], Any]] = {
    "list": list,
    "tuple": tuple,
    "pyarrow": lambda rows: pa.Table.from_pylist(list(rows)),
    "batch": lambda rows: pa.RecordBatch.from_pylist(list(rows)),
    "data set": DataSet,
    "pandas": _pandas,
    "polars": _polars,
}
OBJECTS = {name: made for name, made in _MADE.items() if made not in (_pandas, _polars)} | {
    name: _MADE[name] for name in ("pandas", "polars") if importlib.util.find_spec(name) is not None
}
"""A function that makes each kind of object from a list of dicts; of the packages that are installed."""


def frame_or_skip(rows: Rows) -> Any:
    """A pandas.DataFrame; the test is skipped without pandas."""
    pytest.importorskip("pandas")
    return _pandas(rows)
