from __future__ import annotations

import io
import os
import sys

from hypothesis import given
from hypothesis import strategies as st

from weft.data.readers import piped
from weft.data.readers.piped import lines_of, standard_input


def read(data, writes=None):
    reading, writing = os.pipe()
    for chunk in writes or [data]:
        os.write(writing, chunk)
    os.close(writing)
    try:
        return [line for line in lines_of(reading) if line is not None]
    finally:
        os.close(reading)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=8), max_size=5))
def test_lines_of_a_pipe(lines):
    data = "".join(f"{line}\n" for line in lines).encode()
    expected = [line.removeprefix("\ufeff") if not number else line for number, line in enumerate(lines)]
    assert read(data) == expected


def test_a_line_longer_than_a_chunk(monkeypatch):
    monkeypatch.setattr(piped, "CHUNK", 3)
    assert read("é long line\nanother\n\nend without a line break".encode()) == [
        *("é long line", "another", "", "end without a line break"),
    ]


def test_a_pause_is_reported_once(monkeypatch):
    monkeypatch.setattr(piped, "WAIT", 0.0)
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo\nthr")
    lines = lines_of(reading)
    assert [next(lines) for _ in range(3)] == ["one", "two", None]
    os.write(writing, b"ee\n")
    assert [next(lines) for _ in range(2)] == ["three", None]
    os.close(writing)
    assert list(lines) == []
    os.close(reading)


def test_standard_input_that_is_no_file(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\ufeffé\nb".encode())))
    assert [line.strip() for line in standard_input()] == ["é", "b"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\nb"))
    assert [line.strip() for line in standard_input()] == ["a", "b"]
