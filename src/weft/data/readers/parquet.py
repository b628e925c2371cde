"""parquet files, read by pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.data.readers.parquet_batches import parquet_batches
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.short_strings import ShortStrings
from weft.data.readers.table import Table, no_rows, wanted_columns
from weft.errors import WeftError


def read_parquet(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """Read some columns of a parquet file; others are not read from disk."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as failed:
        raise WeftError(f"{path}: reading parquet needs pyarrow; type: pip install pyarrow") from failed

    source = str(path)
    if path.stat().st_size == 0:
        raise no_rows(source)
    try:
        with pq.ParquetFile(path) as file:
            chosen = wanted_columns(source, file.schema_arrow.names, columns, optional)
            values: dict[str, list[object]] = {column: [] for column in chosen}
            rows, same = 0, ShortStrings()
            # batch by batch: the whole file is held once, as Python values
            for batch in parquet_batches(path, file, chosen):
                for column in chosen:
                    values[column].extend(map(same, _values(source, column, batch[column], rows)))
                rows += batch.num_rows
    except (pa.ArrowException, OSError) as failed:
        words = str(failed).strip().split("\n")[0]
        raise DataError(
            Problem(source, f"the file is not complete parquet: {words}; download or write it again")
        ) from failed
    if not rows:
        raise no_rows(source, "the file has no rows")
    return Table(source, values, np.arange(1, rows + 1), own=True)


def _values(source: str, column: str, array: Any, before: int) -> list[object]:
    """Return a column of a batch as Python values.

    Args:
        source: the file, for messages.
        column: the name of the column.
        array: the values.
        before: how many rows the earlier batches have.
    """
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:
        for row, value in enumerate(array, before + 1):
            try:
                value.as_py()
            except UnicodeDecodeError:
                data = value.as_buffer().to_pybytes()
                message = f"found the bytes {show(data)}; expected UTF-8"
                raise DataError(Problem(source, message, row, column, repr(data[:80]))) from None
        raise
