"""Compressed files that hold far more than a text can."""

from __future__ import annotations

import gzip
import json
import random
from io import TextIOWrapper

import pytest

from weft.data.readers import compressed
from weft.data.readers.compressed import SMALL, BoundedGzip
from weft.data.readers.problem import DataError
from weft.data.readers.read import read_rows


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The limits of a sixteenth, so that the tests are fast."""
    monkeypatch.setattr(compressed, "SMALL", SMALL // 16)
    monkeypatch.setattr(compressed, "BLOCK", 2**16)


def bomb(path, data=b"\n", size=2**26, start=b""):
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(start + data * (size // len(data)))
    return path


@pytest.mark.each_value
@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv.gz", "a.tsv.gz", "a.conll.gz", "a.json.gz"])
@pytest.mark.parametrize("data", [b"\n", b"a"])
def test_every_text_format_refuses_them(tmp_path, name, data):
    path = bomb(tmp_path / name, data)
    assert path.stat().st_size < 2**17
    with pytest.raises(DataError, match=r"decompress to more than .*decompress it first: gunzip a\."):
        read_rows(path, ["text", "label"])


def test_a_good_beginning_does_not_help(tmp_path):
    path = bomb(tmp_path / "a.csv.gz", start=b"text,label\nx,1\n")
    with pytest.raises(DataError, match="repeats itself almost everywhere"):
        read_rows(path, ["text", "label"])


@pytest.mark.parametrize("read", [
    lambda file: file.read(),
    lambda file: file.read(2**25),
    lambda file: [file.read1(1000) for _ in iter(lambda: file.read(999), b"")],
    lambda file: TextIOWrapper(file).read(),
    lambda file: list(TextIOWrapper(file)),
])  # fmt: skip
def test_every_way_of_reading(tmp_path, read):
    with BoundedGzip(bomb(tmp_path / "x.gz")) as file, pytest.raises(DataError):
        read(file)


def test_texts_are_read_whole(tmp_path):
    """Texts that gzip shrinks well, and more than the size that any file may have."""
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefgh", k=5)) for _ in range(50)]
    rows = [{"text": " ".join(draw.choices(words, k=40)), "label": n} for n in range(10_000)]
    path = tmp_path / "a.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    table = read_rows(path, ["text", "label"])
    assert table.columns["text"] == [row["text"] for row in rows]
    with BoundedGzip(path) as ours, gzip.open(path) as theirs:
        assert ours.read(7) + ours.read() == theirs.read()


def test_a_small_file_may_repeat_itself(tmp_path):
    path = tmp_path / "a.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("text,label\n" + "the same row,1\n" * 5000)
    assert len(read_rows(path, ["text", "label"]).columns["text"]) == 5000
