from __future__ import annotations

import datetime
import gzip
import json
import math
import time

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.workflows.prediction_output import as_line, open_output, output_form, rounded
from weft.workflows.prediction_tables import flat

ROWS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


def refuse(name):
    raise AssertionError(f"{name} is no JSON")


@given(st.dictionaries(st.text(max_size=3), ROWS, max_size=4), st.integers(0, 6))
def test_a_line_is_json_without_nan(row, digits):
    line = as_line(rounded(row, digits))
    line.encode()
    assert line.endswith("\n")
    assert line.count("\n") == 1
    json.loads(line, parse_constant=refuse)


@given(st.floats(), st.integers(0, 8))
def test_rounding(number, digits):
    found = rounded({"x": [number]}, digits)["x"][0]
    if not math.isfinite(number):
        assert found is None
    else:
        assert found == round(number, digits)
        assert repr(found) != "-0.0"
    assert rounded(7, digits) == 7


def test_values_of_files_that_json_does_not_have():
    row = {"when": datetime.date(2020, 1, 2), "raw": b"abc", "half": "\ud83d", "nan": float("nan")}
    assert json.loads(as_line(row)) == {"when": "2020-01-02", "raw": "abc", "half": "\ud83d", "nan": None}


def test_flat_rows():
    assert flat({"a": {"b": {"c": 1}, "d": [2]}, "e": 3}) == {"a.b.c": 1, "a.d": [2], "e": 3}


@pytest.mark.parametrize(
    ("name", "form"),
    [("x.csv", "csv"), ("x.TSV.gz", "tsv"), ("x.parquet", "parquet"), ("x.txt", "jsonl"), ("x", "jsonl")],
)
def test_the_ending_decides(tmp_path, name, form):
    assert output_form(tmp_path / name) == form


def test_columns_without_a_common_type_are_text(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.workflows.prediction_tables.BATCH", 1)
    output = open_output(tmp_path / "x.parquet")
    output.write([{"a": 1, "b": None, "c": ["x"]}, {"a": "one", "b": 2}, {"a": None, "b": 0.5, "c": []}])
    output.close(True)
    assert pq.read_table(tmp_path / "x.parquet").to_pylist() == [
        {"a": "1", "b": None, "c": ["x"]},
        {"a": "one", "b": 2.0, "c": None},
        {"a": None, "b": 0.5, "c": []},
    ]


def test_a_number_that_no_type_holds_is_text(tmp_path):
    output = open_output(tmp_path / "x.parquet")
    output.write([{"a": 2**63 - 1, "b": 1}, {"a": 2**64, "b": 2**70}, {"a": -1, "b": 0.5}])
    output.close(True)
    rows = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [row["a"] for row in rows] == [str(2**63 - 1), str(2**64), "-1"]
    assert rows[1]["b"] == str(2**70)


def test_bytes_that_are_no_text_and_columns_of_one_name_are_refused(tmp_path):
    with pytest.raises(WeftError, match=r"the column 'raw' holds b'\\x00\\xff', which is no text"):
        as_line({"input": {"raw": b"\x00\xff"}})
    for row in ({"x.y": 1, "x": {"y": 2}}, {"x": {"y": 2}, "x.y": 1}):
        with pytest.raises(WeftError, match=r"two columns or fields would be written as 'x\.y'"):
            flat(row)
        output = open_output(tmp_path / "x.csv")
        with pytest.raises(WeftError, match=r"x\.csv: two columns"):
            output.write([row])
        output.close(False)


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.csv.gz"])
def test_equal_rows_are_equal_compressed_bytes(tmp_path, name, monkeypatch):
    written = []
    for now in (1e9, 2e9):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        output = open_output(tmp_path / name)
        output.write([{"a": 1}])
        output.close(True)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    assert b"weft" not in written[0]
    assert "1" in gzip.decompress(written[0]).decode()


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.parquet"])
def test_a_file_appears_when_it_is_complete(tmp_path, name):
    file = tmp_path / name
    file.write_text("old")
    output = open_output(file)
    output.close(False)
    assert file.read_text() == "old"
    output = open_output(file)
    output.write([{"a": 1}])
    assert file.read_text() == "old"
    output.close(False)
    assert file.read_bytes() != b"old"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_link_stays_one(tmp_path):
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    output = open_output(tmp_path / "link.jsonl")
    output.write([{"a": 1}])
    output.close(True)
    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "real.jsonl").read_text() == '{"a": 1}\n'


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(WeftError, match="found a folder"):
        open_output(tmp_path)
    with pytest.raises(WeftError, match="there is no folder"):
        open_output(tmp_path / "no" / "x.csv")
