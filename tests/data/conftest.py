"""The real tokenizer, the real data where it is there, and files in every format."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.paths import real_data
from weft.data.tokens import backends

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz", ".parquet")


@pytest.fixture(scope="session")
def tokenizer():
    from weft import load_encoder

    return load_encoder("minilm").tokenizer


@pytest.fixture(scope="session")
def shared() -> Path:
    return real_data()


def as_text(
    rows: Sequence[dict[str, object]], suffix: str, end: str = "\n", quoting: int = csv.QUOTE_MINIMAL
) -> str:
    """Rows of equal keys as csv, tsv or jsonl."""
    if suffix.startswith(".jsonl"):
        return "".join(json.dumps(row, ensure_ascii=False) + end for row in rows)
    if suffix.startswith(".tsv"):
        return "".join(
            "\t".join(map(str, line)) + end for line in [list(rows[0]), *(r.values() for r in rows)]
        )
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=end, quoting=quoting)
    writer.writerows([list(rows[0]), *(list(row.values()) for row in rows)])
    return out.getvalue()


def write(path: Path, rows: Sequence[dict[str, object]], **how: object) -> Path:
    """Write rows in the format that the name says."""
    suffix = next(s for s in sorted(SUFFIXES, key=len, reverse=True) if path.name.endswith(s))
    if suffix == ".parquet":
        pq.write_table(pa.table({key: [row[key] for row in rows] for key in rows[0]}), path)
        return path
    data = as_text(rows, suffix, **how).encode()
    path.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    return path


@pytest.fixture
def counted_copies(monkeypatch):
    """The copies of a backend that counts its rows (test_tokens.Counting) are counted with it."""
    plain = backends.copied

    def copied(backend):
        return backend.copied(plain) if hasattr(backend, "copied") else plain(backend)

    monkeypatch.setattr(backends, "copied", copied)
