"""Equal short strings are one object; no value changes."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.data.readers import short_strings
from weft.data.readers.problem import DataError
from weft.data.readers.read import read_rows
from weft.data.readers.short_strings import LONGEST, ShortStrings

ROWS = [{"text": f"text number {at} " * 4, "label": ("yes", "no")[at % 2], "n": at} for at in range(50)]


def test_values_stay_the_same(monkeypatch):
    monkeypatch.setattr(short_strings, "MOST", 3)
    same = ShortStrings()
    values = ["", "a", "b", "c", "d", "x" * LONGEST, "x" * (LONGEST + 1), None, 1, True, 1.0, ["a"], "a"]
    assert [same(value) for value in values] == values
    assert [type(same(value)) for value in values] == [type(value) for value in values]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_a_label_of_many_rows_is_one_object(tmp_path, form):
    file = tmp_path / f"rows.{form}"
    if form == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif form == "csv":
        lines = ["text,label", *(f"{row['text']},{row['label']}" for row in ROWS)]
        file.write_text("\n".join(lines) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist(ROWS), file)
    table = read_rows(file, ["text", "label"])
    assert table.columns["label"] == [row["label"] for row in ROWS]
    assert table.columns["text"] == [row["text"] for row in ROWS]
    assert len({id(label) for label in table.columns["label"]}) == 2
    assert table.row.tolist() == list(range(1 + (form == "csv"), 51 + (form == "csv")))


def test_a_bad_value_of_a_later_batch_has_its_row(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.data.readers.parquet_batches.BATCH", 4)
    values = [b"good"] * 9 + [b"\xff\xfe"] + [b"good"] * 3
    texts = pa.array(values, pa.binary()).cast(pa.string(), safe=False)
    pq.write_table(pa.table({"text": texts}), tmp_path / "bad.parquet")
    with pytest.raises(DataError, match=r"row 10.*expected UTF-8"):
        read_rows(tmp_path / "bad.parquet", ["text"])
