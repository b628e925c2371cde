"""Ranges of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.data.drafting.label_settings import outer_range

NUMBERS = st.floats(-1e6, 1e6)


@given(NUMBERS, NUMBERS)
def test_a_range_holds_all_labels(first, second):
    """Labels outside the range would be errors of `weft check`."""
    low, high = outer_range(min(first, second), max(first, second))
    assert low <= min(first, second) <= max(first, second) <= high
    assert low < high


def test_ranges_are_round():
    assert outer_range(0.2, 4.8) == (0, 5)
    assert outer_range(0.012, 0.034) == (0.01, 0.04)
    assert outer_range(1, 5) == (1, 5)
