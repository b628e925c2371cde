"""Rows one by one: the same as the readers of whole files give, and bad lines by themselves."""

from __future__ import annotations

import gzip
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.readers import streamed
from weft.data.readers.dialect import Dialect
from weft.data.readers.read import read_rows
from weft.data.readers.streamed import (
    LongLine,
    first_line,
    json_rows,
    stream_delimited,
    stream_lines,
    text_rows,
)
from weft.data.readers.streamed_parquet import stream_parquet
from weft.errors import WeftError

CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\t\x00"), max_size=12)
TABLES = st.lists(st.tuples(st.just("x"), CELLS, CELLS), min_size=1, max_size=6)


def quoted(cell):
    return '"' + cell.replace('"', '""') + '"'


def rows_of(stream):
    with stream:
        return list(stream.rows)


@given(TABLES)
def test_rows_are_those_of_the_readers_of_whole_files(tmp_path_factory, table):
    folder = tmp_path_factory.mktemp("rows")
    names = ("first", "a", "b")
    dicts = [dict(zip(names, row, strict=True)) for row in table]
    (folder / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in dicts), "utf-8")
    lines = [",".join(map(quoted, row)) for row in (names, *table)]
    (folder / "x.csv").write_text("\n".join(lines) + "\n", "utf-8", newline="")
    pq.write_table(pa.Table.from_pylist(dicts), folder / "x.parquet")
    streams = {
        "x.jsonl": stream_lines(folder / "x.jsonl", "utf-8", json_rows),
        "x.csv": stream_delimited(folder / "x.csv", Dialect()),
        "x.parquet": stream_parquet(folder / "x.parquet", lambda known: None),
    }
    for name, stream in streams.items():
        rows = rows_of(stream)
        assert [row.value for row in rows] == dicts
        assert [row.wrong for row in rows] == [None] * len(dicts)
        assert [row.number for row in rows] == read_rows(folder / name, names).row.tolist()


def test_a_bad_line_is_reported_by_itself(tmp_path):
    file = tmp_path / "x.csv"
    lines = ["a,b", "1,2", "1", "", '"x"y,2', "1,2,3", "3,4"]
    file.write_bytes("\n".join(lines).encode() + b"\n5,\xff\n6,7\n")
    rows = rows_of(stream_delimited(file, Dialect()))
    assert [(row.number, row.wrong is None) for row in rows] == [
        *((2, True), (3, False), (5, False), (6, False)),
        *((7, True), (8, False), (9, True)),
    ]
    assert "found 1 value; expected 2: a, b" in rows[1].wrong
    assert "broken quotes" in rows[2].wrong
    assert "found the byte 0xff; expected UTF-8" in rows[5].wrong


def test_bad_lines_of_json_and_text(tmp_path):
    file = tmp_path / "x.jsonl"
    file.write_bytes('\ufeff{"a": 1}\n\n{\n"é\n'.encode() + b'"\xe9"\r\n[2]')
    rows = rows_of(stream_lines(file, "utf-8", json_rows))
    assert [(row.number, row.value) for row in rows] == [
        *((1, {"a": 1}), (3, None), (4, None), (5, None), (6, [2])),
    ]
    assert [row.wrong is None for row in rows] == [True, False, False, False, True]
    texts = rows_of(stream_lines(file, "utf-8", text_rows))
    assert [row.number for row in texts if row.wrong] == [5]


def test_parquet_rows_that_are_no_text(tmp_path):
    """A string column may hold any bytes; pyarrow notices when they are read."""
    good, bad = b"fine", b"\xff\xfe"
    cells = pa.array([good, bad, good], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"a": cells, "b": [1, 2, 3]}), tmp_path / "x.parquet")
    rows = rows_of(stream_parquet(tmp_path / "x.parquet", lambda known: ["a"]))
    assert [row.value for row in rows] == [{"a": "fine"}, None, {"a": "fine"}]
    assert "expected UTF-8" in rows[1].wrong


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(WeftError, match="not complete parquet"):
        stream_parquet(tmp_path / "x.parquet", lambda known: None)
    whole = gzip.compress(b'{"a": 1}\n' * 9999)
    (tmp_path / "x.jsonl.gz").write_bytes(whole[:-20])
    with pytest.raises(WeftError, match="not complete gzip"):
        rows_of(stream_lines(tmp_path / "x.jsonl.gz", "utf-8", json_rows))
    (tmp_path / "x.csv").write_text("")
    with pytest.raises(WeftError, match="the file is empty"):
        stream_delimited(tmp_path / "x.csv", Dialect())


def test_how_much_was_read(tmp_path):
    file = tmp_path / "x.jsonl"
    file.write_text('{"a": "some text"}\n' * 20000)
    stream = stream_lines(file, "utf-8", json_rows)
    next(stream.rows)
    early = stream.share()
    assert 0 < early < 0.5
    assert len(rows_of(stream)) == 19999


def test_looking_at_the_first_line_loses_none():
    first, lines = first_line(iter([None, "\n", "a\n", "b\n"]))
    assert first == "a\n"
    assert list(lines) == [None, "\n", "a\n", "b\n"]
    first, lines = first_line(iter([" \n"]))
    assert (first, list(lines)) == ("", [" \n"])


@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_a_line_that_is_too_long_is_one_bad_row(tmp_path, monkeypatch, end):
    monkeypatch.setattr(streamed, "LINE", 30)
    lines = ['{"text": "a"}', '{"text": "' + "x" * 100 + '"}', '{"text": "b"}', "y" * 31]
    file = tmp_path / "rows.jsonl"
    file.write_bytes(("\n".join(lines[:-1]) + "\n" + lines[-1] + end).encode())
    rows = rows_of(stream_lines(file, "utf-8", json_rows))
    assert [row.number for row in rows] == [1, 2, 3, 4]
    assert [row.value for row in rows] == [{"text": "a"}, None, {"text": "b"}, None]
    assert rows[1].wrong.startswith('the line has more than 30 characters; found \'{"text": "xxx')
    rows = rows_of(stream_lines(file, "utf-8", text_rows))
    assert [row.wrong is None for row in rows] == [True, False, True, False]


@given(st.lists(st.text("ab é\r", max_size=20), max_size=6), st.integers(1, 25))
def test_bounded_lines_are_the_lines_of_the_file(lines, most):
    """Short lines as they are; of a long one the beginning, once, and the next line follows."""
    text = "".join(f"{line}\n" for line in lines)
    expected = list(io.StringIO(text, newline=""))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streamed, "LINE", most)
        found = list(streamed.bounded_lines(io.StringIO(text, newline="")))
    long = [len(line) > most for line in expected]
    if "\r\n" in text:  # the two characters of a line's end may be read one by one
        assert [line for line in found if not isinstance(line, LongLine) and line != "\n"] == [
            line for line, is_long in zip(expected, long, strict=True) if not is_long and line != "\n"
        ]
        return
    assert [isinstance(line, LongLine) for line in found] == long
    for line, right, is_long in zip(found, expected, long, strict=True):
        assert right.startswith(line)
        assert is_long or line == right
