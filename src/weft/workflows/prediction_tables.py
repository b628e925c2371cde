"""Predictions as tables: csv, tsv and parquet.

A table needs its columns before its first row, and predictions of mixed tasks have different ones. So rows
are first written to a temporary file of JSON lines, and the table is made of it at the end, with constant
memory. Values of parquet that JSON does not have, such as dates and bytes, are in a second temporary file.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.workflows.prediction_columns import Columns

TABLES = ("csv", "tsv", "parquet")
BATCH = 4096
"""How many rows of a table are in memory at once."""


def flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a row without nested objects: {"p": {"no": 0.1}} → {"p.no": 0.1}."""
    columns: dict[str, Any] = {}
    for key, value in row.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            inner = flat(value, f"{name}.")
            if twice := columns.keys() & inner.keys():
                raise WeftError(written_twice(min(twice)))
            columns |= inner
        elif name in columns:
            raise WeftError(written_twice(name))
        else:
            columns[name] = value
    return columns


def written_twice(name: str) -> str:
    """What is wrong if two values have the same name in a table."""
    return (
        f"two columns or fields would be written as {name!r}; expected different names: choose columns by "
        "--keep COLUMN,COLUMN, or write JSON lines: --out FILE.jsonl"
    )


def open_text(file: Path, compress: bool) -> IO[str]:
    """Open a file to write text; gzip without a name and a time, so equal rows are equal bytes."""
    if compress:
        return cast("IO[str]", TextIOWrapper(_Gzip(file), encoding="utf-8"))
    return file.open("w", encoding="utf-8", newline="")


class _Gzip(gzip.GzipFile):
    def __init__(self, file: Path) -> None:
        self._file = file.open("wb")
        super().__init__("", "wb", fileobj=self._file, mtime=0)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._file.close()


class Kept:
    """Values of an input's columns with their arrow types, in a temporary file beside the rows.

    Args:
        file: an empty temporary file.
        types: the type of each column.
    """

    def __init__(self, file: Path, types: Mapping[str, Any]) -> None:
        import pyarrow as pa

        self.file, self._schema = file, pa.schema(list(types.items()))
        self._writer = pa.ipc.new_stream(str(file), self._schema)

    def taken(self, rows: list[dict[str, Any]]) -> Any:
        """Take the values out of some rows; returns them as a batch for `write`."""
        import pyarrow as pa

        arrays = []
        for column in self._schema:
            values = [row.pop(column.name, None) for row in rows]
            try:
                arrays.append(pa.array(values, column.type))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as wrong:
                raise WeftError(
                    f"the column {column.name!r} of the type {column.type} cannot be copied ({wrong}); leave "
                    "it out: --keep COLUMN,COLUMN"
                ) from None
        return pa.record_batch(arrays, schema=self._schema)

    def write(self, batch: Any) -> None:
        """Write the values of some rows."""
        if batch.num_rows:
            self._writer.write_batch(batch)

    def close(self) -> None:
        """Complete the file."""
        self._writer.close()


def write_table(
    form: str, rows: Path, kept: Path | None, file: Path, columns: Sequence[str], known: Columns, gz: bool
) -> None:
    """Make a table of the rows in temporary files.

    Args:
        form: csv, tsv or parquet.
        rows: the file of JSON lines.
        kept: the file of `Kept`, if there is one.
        file: the table.
        columns: its columns.
        known: what was known about them before.
        gz: whether to compress csv and tsv.
    """
    if form == "parquet":
        _write_parquet(rows, kept, file, columns, known)
        return
    with open_text(file, gz) as stream:
        writer = csv.writer(stream, delimiter="," if form == "csv" else "\t", lineterminator="\n")
        writer.writerow(columns)
        for batch, _ in _batches(rows, None):
            writer.writerows([_cell(row.get(column)) for column in columns] for row in batch)


def _batches(rows: Path, kept: Path | None) -> Iterator[tuple[list[dict[str, Any]], Any]]:
    """Yield some rows, and the values of `Kept` that belong to them."""
    with rows.open(encoding="utf-8") as lines:
        if kept is None:
            while batch := [json.loads(line) for line in islice(lines, BATCH)]:
                yield batch, None
            return
        import pyarrow as pa

        with pa.OSFile(str(kept), "rb") as stream:
            for values in pa.ipc.open_stream(stream):
                batch = [json.loads(line) for line in islice(lines, values.num_rows)]
                yield batch, values.slice(0, len(batch))  # an interrupted call may lack the last lines


def _cell(value: Any) -> Any:
    """A list as JSON; a missing value as an empty cell."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | bool) else value


def _write_parquet(rows: Path, kept: Path | None, file: Path, columns: Sequence[str], known: Columns) -> None:
    import pyarrow as pa

    types: dict[str, Any] = dict.fromkeys(columns, pa.null())
    types |= {name: kind for name, kind in known.kept.items() if name in types}
    for name in columns:
        if name in known.examples:
            types[name] = pa.infer_type([known.examples[name]])
    guessed = [name for name in columns if name not in known.kept and name not in known.examples]
    if guessed:
        for batch, _ in _batches(rows, kept):
            for column in guessed:
                types[column] = _common_type(types[column], [row.get(column) for row in batch])
    while (wrong := _written(rows, kept, file, types, known)) is not None:
        types[wrong] = pa.string()  # which holds everything


def _written(
    rows: Path, kept: Path | None, file: Path, types: Mapping[str, Any], known: Columns
) -> str | None:
    """Write the table; returns a column whose values its type cannot hold, if there is one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(list(types.items()))
    with pq.ParquetWriter(file, schema) as writer:
        for batch, values in _batches(rows, kept):
            arrays = []
            for name, kind in types.items():
                if name in known.kept:
                    arrays.append(values.column(name))
                    continue
                try:
                    arrays.append(pa.array([_typed(row.get(name), kind) for row in batch], kind))
                except (pa.ArrowException, TypeError, ValueError, OverflowError):
                    if pa.types.is_string(kind):
                        raise
                    return name
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    return None


def _common_type(before: Any, values: list[Any]) -> Any:
    """The arrow type of a column so far; values that have no common type are written as text."""
    import pyarrow as pa

    try:
        found = pa.infer_type(values)
        both = [pa.schema([("x", before)]), pa.schema([("x", found)])]
        return pa.unify_schemas(both, promote_options="permissive").field("x").type
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.string()


def _typed(value: Any, kind: Any) -> Any:
    if value is None or isinstance(value, str) or str(kind) != "string":
        return value
    return json.dumps(value, ensure_ascii=False)
