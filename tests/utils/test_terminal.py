"""Control characters of names and labels on their way to the terminal."""

from __future__ import annotations

import io
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.utils.terminal import EscapingStream, console, escaped, escaped_line, escaping_output, raw_stream

DANGEROUS = {
    "\x1b[2J": r"\x1b[2J",
    "\x1b]0;title\x07": r"\x1b]0;title\x07",
    "a\rb": r"a\rb",
    "a\bb": r"a\x08b",
    "\x9b31m": r"\x9b31m",
    "\x7f": r"\x7f",
    "user\u202etxt.exe": r"user\u202etxt.exe",
    "\u2066x\u2069": r"\u2066x\u2069",
    "a\u2028b": r"a\u2028b",
    "\udcff.csv": r"\udcff.csv",
}
HARMLESS = [
    "plain",
    "a\tb\nc",
    "schön",
    "日本語",
    "नमस्ते",
    "می‌خواهم",
    "👩‍👩‍👧 flag 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "שלום",
    "½ – “x”",
    "a\u0301",
]


@pytest.mark.parametrize("text", DANGEROUS)
def test_control_characters_are_escaped(text):
    assert escaped(text) == escaped(escaped(text)) == DANGEROUS[text]


@pytest.mark.parametrize("text", HARMLESS)
def test_texts_in_any_language_stay(text):
    assert escaped(text) is text


@given(st.text())
def test_nothing_that_controls_a_terminal_is_left(text):
    shown = escaped(text)
    assert all(unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") or c in "\t\n" for c in shown)
    shown.encode()  # never fails
    assert not set(escaped_line(text)) & set("\t\n")


def test_standard_streams_escape_and_return_afterwards(capsys):
    before = sys.stdout, sys.stderr
    with escaping_output(), escaping_output():
        print("\x1b[31mred\x1b[0m")
        print("\u202etxt", file=sys.stderr)
        sys.stdout.writelines(["\x07", "\n"])
        assert raw_stream(sys.stdout) is before[0]
        assert not sys.stdout.isatty()
    assert (sys.stdout, sys.stderr) == before
    printed = capsys.readouterr()
    assert printed.out == "\\x1b[31mred\\x1b[0m\n\\x07\n"
    assert printed.err == "\\u202etxt\n"


def test_wefts_own_colors_go_to_the_raw_stream(capsys):
    with escaping_output():
        console(force_terminal=True, color_system="standard").print("[red]weft[/red]")
    assert "\x1b[31mweft" in capsys.readouterr().out


def test_a_stream_counts_what_it_was_given():
    below = io.StringIO()
    assert EscapingStream(below).write("\x1b") == 1
    assert below.getvalue() == "\\x1b"


def test_without_standard_streams(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with escaping_output():
        assert sys.stderr is None
