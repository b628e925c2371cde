"""Nothing that a terminal would obey passes; every other text stays as it is."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.utils.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2J", "a\\x1b[2J"),
        ("a\rb\x00", "a\\rb\\x00"),
        ("a\x9b2J\x7f", "a\\x9b2J\\x7f"),
        ("gpj.\u202eexe", "gpj.\\u202eexe"),
        ("caf\udce9.csv", "caf\\udce9.csv"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("Größe 雨 🙂 שלום", "Größe 雨 🙂 שלום"),
        (7, "7"),
    ],
)
def test_texts(text, shown):
    assert printable(text) == shown


@given(st.text())
def test_no_control_character_is_left(text):
    shown = printable(text)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs") and c not in "\t\n"]
    assert shown.encode().decode() == shown
    assert printable(shown) == shown
