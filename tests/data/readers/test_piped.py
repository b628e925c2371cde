from __future__ import annotations

import io
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.readers import piped
from weft.data.readers.piped import lines_of, standard_input
from weft.data.readers.streamed import LongLine


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


@given(
    st.lists(st.text("ab\r", max_size=30), max_size=5),
    st.integers(1, 12),
    st.booleans(),
)
def test_lines_that_are_too_long_are_marked_and_not_kept(lines, chunk, ended):
    data = "\n".join(lines).encode() + b"\n" * ended
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(piped, "CHUNK", chunk)
        patch.setattr(piped, "LINE", 12)
        patch.setattr(piped, "BEGINNING", 4)
        found = read(data)
    expected = data.decode().removesuffix("\n" * ended).split("\n") if lines else [""]
    expected = expected if ended or expected[-1] else expected[:-1]
    assert len(found) == len(expected)
    for line, right in zip(found, expected, strict=True):
        assert isinstance(line, LongLine) == (len(right) > 12)
        assert line == (right[:4] if len(right) > 12 else right)


def test_an_endless_line_needs_little_memory(monkeypatch):
    """The parts of a line that is too long are dropped as they arrive."""
    kept = []
    monkeypatch.setattr(piped, "LINE", 1000)
    monkeypatch.setattr(piped, "CHUNK", 100)
    original = piped._line
    monkeypatch.setattr(
        piped, "_line", lambda parts, *rest: kept.append(len(parts)) or original(parts, *rest)
    )
    (line,) = read(b"x" * 50_000)
    assert isinstance(line, LongLine)
    assert max(kept) <= 12
