"""Regular expressions in linear time: they match what `re` matches, and what `re` hangs on ends at once."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from weft.utils.linear_regex import LONGEST_TEXT, PatternError, linear_pattern

ATOMS = st.sampled_from(
    [
        *"abx.",
        r"\.",
        "[ab]",
        "[^a]",
        "[a-c1]",
        r"\w",
        r"\W",
        r"\d",
        r"\D",
        r"\s",
        r"\S",
        "^",
        "$",
        r"\A",
        r"\Z",
    ]
)
REPEATS = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{0}", "{1,3}", "{0,2}?", "{2,}"])


def larger(inner):
    """Patterns of patterns."""
    return (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})")
        | st.tuples(inner, REPEATS).map(lambda two: f"(?:{two[0]}){two[1]}")
    )


@settings(max_examples=examples(400))
@given(st.recursive(ATOMS, larger, max_leaves=8), st.text("abx.1 \n", max_size=8))
def test_it_matches_what_re_matches(pattern, text):
    assert linear_pattern(pattern).matches(text) == (re.match(pattern, text) is not None)


@pytest.mark.parametrize(
    "pattern", ["(a+)+x", "(a|a)*x", "(a|aa)+x", "((a*)*)*x", "(a|a)" * 30 + "x", "(.*)*x"]
)
def test_patterns_that_re_takes_years_for(pattern):
    assert not linear_pattern(pattern).matches("a" * 500)
    assert linear_pattern(pattern).matches("a" * 30 + "x")


REFUSED = {
    "(?=a)b": "lookaround is not supported",
    "(?<!a)b": "lookaround is not supported",
    r"(a)\1": "references to groups are not supported",
    "(?P<n>a)(?P=n)": "references to groups are not supported",
    "(a)(?(1)b|c)": "references to groups are not supported",
    "a*+": "possessive repeat is not supported",
    "(?>a)b": "atomic group is not supported",
    "(?i)a": "flags are not supported",
    "(?i:a)": "flags are not supported",
    r"\bx": "boundaries of words are not supported",
    "(a?){2000}a{2000}": "it repeats too much",
    "((a{100}){100}){100}": "it repeats too much",
    "(){1000000000}": "it repeats too much",
    "x{4294967294}": "it repeats too much",
    "x{4294967295}": "too large",
    "(": "missing ",
    "[": "unterminated",
    "a" * 1001: "1,001 characters; expected at most 1,000",
}


@pytest.mark.parametrize("pattern", REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(pattern):
    with pytest.raises(PatternError, match=re.escape(REFUSED[pattern])):
        linear_pattern(pattern)


def test_a_text_that_is_too_long():
    with pytest.raises(PatternError, match="a text of 2,001 characters"):
        linear_pattern("a").matches("a" * (LONGEST_TEXT + 1))
