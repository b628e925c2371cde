"""Formats by content."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.support.own_files import SIX
from weft.data.drafting.file_format import detect_format, is_conll
from weft.data.readers.problem import DataError

ROWS = "".join(json.dumps({"text": f"t {n}", "label": n % 2}) + "\n" for n in range(9))


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("a.csv", "text,label\na b,1\nc d,0\n", "csv"),
        ("a.txt", "text\tlabel\na b\t1\nc d\t0\n", "tsv"),
        ("a.jsonl", ROWS, "jsonl"),
        ("a.json", ROWS, "jsonl"),
        ("a.txt", ROWS, "jsonl"),
        ("a.json", json.dumps([{"text": "a", "label": 1}], indent=1), "json"),
        ("a.json", json.dumps({"data": [{"title": "x", "paragraphs": []}]}, indent=1), "squad"),
        ("a.jsonl", '{"header": {"dataset": "X"}}\n{"context": "a", "qas": []}\n', "mrqa"),
        ("a.txt", "Ann B-PER\nruns O\n\nBen B-PER\nruns O\n", "conll"),
        ("a.tsv", "Ann\tB-PER\nruns\tO\n\nBen\tB-PER\nruns\tO\n", "conll"),
    ],
)
def test_formats(tmp_path, name, text, form):
    file = tmp_path / name
    file.write_text(text)
    assert detect_format(file).format == form
    zipped = tmp_path / f"{name}.gz"
    zipped.write_bytes(gzip.compress(text.encode()))
    assert detect_format(zipped).format == form


@pytest.mark.parametrize(
    ("name", "form", "keys"),
    [
        ("semicolons", "csv", {"delimiter": ";"}),
        ("null_labels", "jsonl", {}),
        ("quoted_tsv", "tsv", {"quotes": True, "delimiter": "\t"}),
        ("conll", "conll", {}),
        ("squad", "squad", {}),
        ("latin_1", "csv", {"encoding": "cp1252"}),
    ],
)
def test_files_as_people_have_them(tmp_path, name, form, keys):
    found = detect_format(SIX[name](tmp_path))
    assert found.format == form
    for key, value in keys.items():
        assert getattr(found.dialect, key) == value


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b" \n\n", "the file is empty"),
        (b"PK\x03\x04rest", "zip or Excel file: save it as csv"),
        (b"\x00\x01\x02binary\xff" * 20, "no text file"),
        (b"one text\nanother text\n", "no column of labels"),
        (b'{"a": [1,\n2]}', "found one JSON object with the keys a"),
    ],
)
def test_a_file_that_no_reader_fits(tmp_path, content, message):
    file = tmp_path / "x.dat"
    file.write_bytes(content)
    with pytest.raises(DataError, match=message):
        detect_format(file)


def test_a_missing_file_says_what_the_folder_holds(tmp_path):
    (tmp_path / "reviews.csv").touch()
    with pytest.raises(DataError, match=r"did you mean 'reviews\.csv'"):
        detect_format(tmp_path / "review.csv")


@pytest.mark.parametrize(
    "text", ["a b c\n\nd e\n\nf g\n", "text label\nhello 1\nthere 0\nyou 1\n", "", "\n\n"]
)
def test_no_conll(text):
    assert not is_conll(text)
