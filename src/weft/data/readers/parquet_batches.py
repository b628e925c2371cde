"""Reads parquet in batches of rows, and refuses small files that hold very much.

parquet stores a value that is repeated a billion times in a few bytes. Texts of a task differ from each
other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from weft.data.readers.problem import DataError, Problem

BATCH = 512
"""How many rows are decoded at once, before their size is known; smaller batches take longer in all."""
MANY_ROWS = 1_000_000
"""The number of rows that any file may have."""
ROWS_PER_BYTE = 64
"""How many rows a file of more may have for each of its bytes; real files have fewer than one."""
SMALL = 256 * 2**20
"""The number of bytes that the values of any file may have in memory."""
RATIO = 200
"""How many times larger than the file its values may be; real ones are at most about 30 times as large."""


def parquet_batches(
    path: Path, file: Any, columns: Sequence[str] | None = None, rows: int = BATCH
) -> Iterator[Any]:
    """Yield `pyarrow.RecordBatch`es of a parquet file.

    Args:
        path: the file.
        file: the file as an open `pyarrow.parquet.ParquetFile`.
        columns: the columns to read; None: all.
        rows: the most rows of a batch.

    Raises:
        DataError: it holds more than a file of its size can hold of texts.
    """
    size = path.stat().st_size
    total_rows = file.metadata.num_rows
    if total_rows > MANY_ROWS and total_rows > ROWS_PER_BYTE * size:
        raise _too_large(path, f"it has {total_rows:,} rows in {size:,} bytes")
    limit = max(SMALL, RATIO * size)
    if (stated := _stated(file.metadata)) > limit:
        raise _too_large(path, f"its values have {stated:,} bytes, and the file has {size:,}")
    total = 0
    for batch in file.iter_batches(min(rows, BATCH), columns=None if columns is None else list(columns)):
        total += batch.nbytes
        if total > limit:
            raise _too_large(path, f"its values have more than {limit:,} bytes, and the file has {size:,}")
        yield batch


def _stated(metadata: Any) -> int:
    """The size of all pages before compression, as the file states it."""
    return sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))


def _too_large(path: Path, found: str) -> DataError:
    message = f"{found}, so it repeats itself almost everywhere; if that is right, write it as jsonl"
    return DataError(Problem(str(path), message))
