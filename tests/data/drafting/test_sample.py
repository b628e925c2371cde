"""Samples of files."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.data.drafting import sample as module
from weft.data.drafting.sample import read_sample
from weft.data.readers.problem import DataError
from weft.data.readers.read import read_rows
from weft.data.readers.source import as_source


def test_a_small_file_is_read_whole(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("text,label\none,1\ntwo,0\n")
    sample = read_sample(file)
    assert sample.columns == {"text": ["one", "two"], "label": ["1", "0"]}
    assert (sample.total, sample.exact, sample.is_whole, sample.count) == (2, True, True, "2")
    assert sample.entry("a.csv") == "a.csv"


def write(folder, form, count):
    file = folder / f"many.{form}"
    if form == "parquet":
        pq.write_table(
            pa.table({"text": [f"t {n}" for n in range(count)], "label": list(range(count))}), file
        )
    elif form == "csv":
        file.write_text("text,label\n" + "".join(f"t {n},{n}\n" for n in range(count)))
    else:
        file.write_text("".join(json.dumps({"text": f"t {n}", "label": n}) + "\n" for n in range(count)))
    return file


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_of_many_records_the_first_are_kept_and_all_labels_read(tmp_path, form):
    sample = read_sample(write(tmp_path, form, 250), records=100)
    assert (sample.rows, sample.total, sample.exact, sample.is_whole) == (100, 250, True, False)
    values, complete = sample.values(["label"])
    assert complete
    assert [int(value) for value in values["label"]] == list(range(250))


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_large_file_is_not_read_whole(tmp_path, form, monkeypatch):
    monkeypatch.setattr(module, "WHOLE", 500)
    sample = read_sample(write(tmp_path, form, 1000), records=100)
    assert not sample.exact
    assert 700 < sample.total < 1300  # by its size
    assert sample.count.startswith("about ")
    values, complete = sample.values(["label"])
    assert (len(values["label"]), complete) == (100, False)


def test_a_file_without_a_header(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("".join(f"{n},a text of some words {n},{n % 2}\n" for n in range(20)))
    sample = read_sample(file)
    assert list(sample.columns) == ["column_1", "column_2", "column_3"]
    entry = sample.entry(str(file))
    assert len(read_rows(as_source(entry), ["column_2"])) == 20


def test_names_that_a_parquet_file_stores(tmp_path):
    table = pa.table({"label": [0, 1]})
    features = {"info": {"features": {"label": {"names": ["no", "yes"], "_type": "ClassLabel"}}}}
    for metadata in ({"huggingface": json.dumps(features)}, {"label": '["no", "yes"]'}):
        pq.write_table(table.replace_schema_metadata(metadata), tmp_path / "a.parquet")
        assert read_sample(tmp_path / "a.parquet").label_names == {"label": ["no", "yes"]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"text,label\n", "names 2 columns and has no rows"),
        ("a.parquet", b"PAR1broken", "not complete parquet"),
        ("a.jsonl", b'{"text": 1}\n{"text"', "line 2: not JSON"),
    ],
)
def test_broken_files(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_sample(tmp_path / name)


def test_a_few_lines_with_too_many_values_are_left_out(tmp_path):
    file = tmp_path / "a.csv"
    rows = [f"text {n},{n % 2}\n" for n in range(200)]
    file.write_text("".join(["text,label\n", *rows[:10], "a,b,c\n", *rows[10:], "\n"]))
    sample = read_sample(file)
    assert (sample.total, sample.is_whole, sample.options) == (200, True, {"ragged": "skip"})
    assert sample.notes[0].startswith(
        "1 line with too few or too many values left out, the first ends in line 12"
    )
    assert len(read_rows(as_source(sample.entry(str(file))), ["text"])) == 200


def test_many_such_lines_are_an_error(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("text,label\n" + "a b,1\na,b,c\n" * 20)
    with pytest.raises(DataError, match=r"line 3.*found 3 values; expected 2"):
        read_sample(file)


def test_two_columns_of_one_name(tmp_path):
    columns = [pa.array(["a text", "another"]), pa.array([1, 2]), pa.array([3, 4])]
    pq.write_table(pa.table(columns, names=["text", "b", "b"]), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="found 2 columns with this name; expected one"):
        read_sample(tmp_path / "a.parquet")
