"""Statistics of columns."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data.drafting.column import key_of, profile, word_count
from weft.tasks.values import is_missing

VALUES = st.one_of(
    st.none(),
    st.text(max_size=8),
    st.integers(-5, 5),
    st.floats(),
    st.booleans(),
    st.lists(st.integers(), max_size=2),
)


@given(st.lists(VALUES, max_size=30))
def test_counts_and_shares_agree(values):
    column = profile("x", values)
    assert column.rows == len(values)
    assert column.missing == sum(map(is_missing, values))
    assert column.distinct <= column.present
    for share in (column.numbers, column.wholes, column.flags, column.texts, column.lists, column.letters):
        assert 0 <= share <= 1
    assert column.wholes <= column.numbers
    assert math.isnan(column.low) == (column.numbers == 0)


def test_numbers_may_be_written_as_text():
    column = profile("stars", ["1", 5.0, " 3 ", "", None])
    assert (column.missing, column.wholes, column.low, column.high) == (2, 1.0, 1.0, 5.0)
    assert profile("x", ["1.5", "2"]).wholes == 0.5
    assert not profile("x", ["1", "n/a"]).is_number


def test_a_number_and_its_text_are_equal():
    assert key_of(1) == key_of(1.0) == key_of("1")
    assert profile("x", [1, 1.0, "1"]).distinct == 1


@pytest.mark.parametrize(("text", "count"), [("a b  c", 3), ("", 0), ("你好世界", 2), ("schön, ja", 2)])
def test_words(text, count):
    assert word_count(text) == count
