"""Rows of a parquet file one by one, with constant memory; see `weft.data.readers.streamed`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from weft.data.readers.parquet_batches import parquet_batches
from weft.data.readers.problem import DataError, Problem, show
from weft.data.readers.streamed import Row, Rows, RowStream
from weft.errors import WeftError


def stream_parquet(path: Path, wanted: Callable[[tuple[str, ...]], Sequence[str] | None]) -> RowStream:
    """Open a parquet file; a row is a dict.

    Args:
        path: the file.
        wanted: returns those of its columns that are needed; None: all.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as failed:
        raise WeftError(f"{path}: reading parquet needs pyarrow; type: pip install pyarrow") from failed

    def broken(failed: Exception) -> DataError:
        words = str(failed).strip().split("\n")[0]
        return DataError(
            Problem(str(path), f"the file is not complete parquet: {words}; download or write it again")
        )

    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as failed:
        raise broken(failed) from failed
    total, done = file.metadata.num_rows, [0]
    columns = tuple(file.schema_arrow.names)

    def rows() -> Rows:
        chosen = wanted(columns)
        try:
            for batch in parquet_batches(path, file, chosen):
                yield from _parquet_rows(batch, done[0] + 1)
                done[0] += batch.num_rows
        except (pa.ArrowException, OSError) as failed:
            raise broken(failed) from failed

    def share() -> float:
        return done[0] / max(total, 1)

    return RowStream(str(path), rows(), columns, "row", "", share, file.close, file.schema_arrow)


def _parquet_rows(batch: Any, first: int) -> Iterator[Row]:
    try:
        for number, value in enumerate(batch.to_pylist(), first):
            yield Row(number, value)
        return
    except (ValueError, OverflowError):
        pass
    for at in range(
        batch.num_rows
    ):  # some row is no UTF-8, or has a date that Python does not have: one by one
        row = batch.slice(at, 1)
        try:
            yield Row(first + at, row.to_pylist()[0])
        except UnicodeDecodeError as failed:
            yield Row(first + at, None, f"found the bytes {show(failed.object)}; expected UTF-8")
        except (ValueError, OverflowError) as failed:
            yield Row(
                first + at, None, f"found a value that Python cannot hold ({failed}); leave its column out"
            )
