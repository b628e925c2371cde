"""parquet files that hold far more than a file of their size can."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.data.drafting.sample import read_sample
from weft.data.readers import parquet_batches
from weft.data.readers.problem import DataError
from weft.data.readers.read import read_rows
from weft.data.readers.streamed_parquet import stream_parquet


def repeated(value, rows):
    """One value, stored once."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array([value]))


def readers(path):
    """Everything that reads a parquet file."""
    return [
        lambda: read_rows(path, ["text", "label"]),
        lambda: list(stream_parquet(path, lambda columns: None).rows),
        lambda: read_sample(path),
    ]


def test_a_value_that_is_repeated_without_end(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"text": repeated("x", 2_000_000), "label": repeated("y", 2_000_000)}), path)
    assert path.stat().st_size < 2_000_000 / parquet_batches.ROWS_PER_BYTE
    for read in readers(path):
        with pytest.raises(DataError, match=r"it has 2,000,000 rows in [\d,]+ bytes"):
            read()


def test_a_long_value_that_is_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_batches, "SMALL", 2**20)
    path = tmp_path / "x.parquet"
    table = pa.table({"text": repeated("x" * 10_000, 5000), "label": ["y"] * 5000})
    pq.write_table(table, path, compression="zstd", store_schema=False)
    for read in readers(path):
        with pytest.raises(DataError, match=r"its values have more than [\d,]+ bytes"):
            read()


def test_pages_that_decompress_to_much(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_batches, "SMALL", 2**20)
    path = tmp_path / "x.parquet"
    text = "x" * 5_000_000
    pq.write_table(pa.table({"text": [text], "label": ["y"]}), path, compression="zstd", use_dictionary=False)
    for read in readers(path):
        with pytest.raises(DataError, match=r"its values have [\d,]+ bytes, and the file has [\d,]+"):
            read()


@pytest.mark.parametrize("rows", [1, parquet_batches.BATCH, 3 * parquet_batches.BATCH + 5])
def test_other_files_are_read_whole(tmp_path, rows):
    path = tmp_path / "x.parquet"
    texts = [f"text number {n}" for n in range(rows)]
    pq.write_table(
        pa.table({"text": texts, "label": list(range(rows)), "more": [[n] for n in range(rows)]}), path
    )
    assert read_rows(path, ["text", "label"]).columns == {"text": texts, "label": list(range(rows))}
    streamed = [row.value for row in stream_parquet(path, lambda columns: None).rows]
    assert [row["more"] for row in streamed] == [[n] for n in range(rows)]
    assert read_sample(path, 600).columns["text"] == texts[:600]
    assert read_sample(path, 600).total == rows


@pytest.mark.parametrize(
    "metadata", [b'{"info": 3}', b'{"info": {"features": [1]}}', b"[" * 9999, b"\xff", b"null"]
)
def test_odd_metadata_is_left_out(tmp_path, metadata):
    path = tmp_path / "x.parquet"
    table = pa.table({"text": ["a"], "label": [1]}).replace_schema_metadata({b"huggingface": metadata})
    pq.write_table(table, path)
    assert read_sample(path).label_names == {}
