"""The encoding of a file is detected from its bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.readers.encoding import check_encoding, decode_sample, encoding_of
from weft.data.readers.problem import DataError
from weft.errors import WeftError

PATH = Path("reviews.csv")


@given(st.text(), st.data())
def test_utf8_is_utf8_wherever_it_is_cut(text, data):
    encoded = b"text\n" + text.encode()
    end = data.draw(st.integers(5, len(encoded)))
    if "\0" not in text:
        assert encoding_of(PATH, encoded[:end], end == len(encoded)) == "utf-8"
        assert ("text\n" + text).startswith(decode_sample(encoded[:end], "utf-8", False))


@pytest.mark.parametrize(
    ("text", "encoding", "expected"),
    [
        ("Ein schöner Film", "latin-1", "cp1252"),
        ("it’s “good” – really…", "cp1252", "cp1252"),
        ("caf\xe9 \x81\x8d", "latin-1", "latin-1"),
        ("naïve café, Größe", "utf-16", "utf-16"),
        ("naïve café", "utf-16-le", "utf-16-le"),
        ("naïve café", "utf-16-be", "utf-16-be"),
        ("naïve", "utf-8-sig", "utf-8-sig"),
        ("naïve", "utf-32", "utf-32"),
        ("Очень хороший фильм", "utf-8", "utf-8"),
    ],
)
def test_encodings(text, encoding, expected):
    data = text.encode(encoding)
    assert encoding_of(PATH, data, True) == expected
    assert decode_sample(data, expected, True) == text


def test_a_damaged_utf8_file_stays_utf8():
    """Any other encoding would silently garble its valid characters."""
    data = "Größe café naïve\n".encode() * 5 + b"broken \xe9 here\n"
    assert encoding_of(PATH, data, True) == "utf-8"


def test_an_alphabet_that_cannot_be_guessed_asks_for_its_encoding():
    data = ("текст;метка\n" + "Очень хороший фильм;1\n" * 20).encode("cp1251")
    with pytest.raises(DataError, match=r"reviews\.csv: .*encoding: cp1251"):
        encoding_of(PATH, data, True)


@pytest.mark.parametrize("name", ["UTF8", "latin1", "cp1251", "utf_16", "shift-jis", "gb18030"])
def test_names_of_encodings(name):
    assert "naïve"[:2].encode(check_encoding(name)).decode(name) == "na"


@pytest.mark.parametrize(
    "name", ["klingon", "", 7, None, "a\0b", "base64", "rot13", "zip", "idna", "undefined"]
)
def test_names_that_are_no_encoding_of_files(name):
    with pytest.raises(WeftError, match=r"encoding: expected a name such as utf-8, .*; found "):
        check_encoding(name)
