"""Tables with odd shapes, cells and types: as csv or tsv, and as parquet."""

from __future__ import annotations

import csv
import io
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.value_damage import ODD_TEXTS, odd_key

NAMES = ("text", "label", "a", "b", "id", "task", "question", "context", "answers", "tokens", "")
CELLS = ("a cat", "no", "yes", "0", "1", "-1", "", "4.5", "a, b", 'a "b"', "line\nbreak", "cat dog " * 400)


def odd_table(draw: Random, delimiter: str) -> bytes:
    """Return a table as csv: few or many columns, ragged rows, odd cells and odd names."""
    columns = draw.choice([0, 1, 2, 2, 2, 3, 40, 2000])
    rows = draw.choice([0, 1, 2, 5, 30, 300]) if columns < 2000 else 2
    names = [draw.choice(NAMES) if draw.random() < 0.8 else odd_key(draw, "text") for _ in range(columns)]
    out = io.StringIO()
    writer = csv.writer(
        out,
        delimiter=delimiter,
        quoting=draw.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
        lineterminator=draw.choice(["\n", "\r\n", "\r"]),
    )
    writer.writerow(names)
    for _ in range(rows):
        width = columns if draw.random() < 0.97 else draw.randint(0, columns + 3)
        cells = [draw.choice(CELLS) if draw.random() < 0.97 else draw.choice(ODD_TEXTS) for _ in range(width)]
        writer.writerow(cells)
    return out.getvalue().encode("utf-8", "replace")


COLUMNS: tuple[tuple[Any, list[Any]], ...] = (
    (pa.string(), ["a cat", None, "", "é"]),
    (pa.large_string(), ["a cat", "b", "c", "d"]),
    (pa.binary(), [b"a", b"\xff", None, b""]),
    (pa.int8(), [0, 1, -1, None]),
    (pa.uint64(), [0, 1, 2**64 - 1, 1]),
    (pa.int64(), [0, 1, 1, 0]),
    (pa.float64(), [0.5, float("nan"), float("inf"), None]),
    (pa.float16(), None),
    (pa.bool_(), [True, False, None, True]),
    (pa.date32(), [date(2024, 1, 1)] * 4),
    (pa.timestamp("ns", "UTC"), [datetime(2024, 1, 1)] * 4),
    (pa.duration("s"), [timedelta(1)] * 4),
    (pa.decimal128(20, 3), [Decimal("1.5")] * 4),
    (pa.list_(pa.string()), [["a"], [], None, ["a", None]]),
    (pa.list_(pa.list_(pa.int32())), [[[1]], [], None, [[]]]),
    (pa.struct([("x", pa.int32()), ("y", pa.string())]), [{"x": 1, "y": "a"}, None, {}, {"x": None}]),
    (pa.map_(pa.string(), pa.int32()), [[("a", 1)], [], None, [("a", None)]]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a", None]),
    (pa.null(), [None] * 4),
)
"""Types of columns with four values each."""


def odd_parquet(draw: Random) -> bytes:
    """Return a parquet file whose columns have types that few tables have."""
    rows = draw.choice([0, 1, 4, 4])
    arrays, names = [], []
    for name in draw.sample(NAMES[:-1], draw.randint(1, 4)):
        kind, values = draw.choice(COLUMNS)
        array = pa.nulls(4, kind) if values is None else pa.array(values, type=kind)
        arrays.append(array.slice(0, rows))
        names.append(name)
    if draw.random() < 0.1:
        names[-1] = draw.choice([names[0], "", "a.b"])
    out = io.BytesIO()
    pq.write_table(
        pa.table(arrays, names=names), out, compression=draw.choice(["none", "snappy", "gzip", "zstd"])
    )
    return out.getvalue()
