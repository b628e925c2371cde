"""Padded sizes: as few as asked for, and none that waste less."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.training.step.buckets import choose_lengths, choose_rows, padded, waste

LENGTHS = st.lists(st.integers(1, 70), min_size=1, max_size=25)


def places(steps, sizes):
    return sum(padded(n, sizes) for n in steps)


@given(LENGTHS, st.integers(1, 5))
def test_no_other_choice_wastes_less(steps, most):
    found = choose_lengths(steps, most)
    assert list(found) == sorted(set(found))
    assert len(found) <= most
    assert all(size % 8 == 0 for size in found)
    assert max(steps) <= found[-1] < max(steps) + 8
    rounded = sorted({-(-n // 8) * 8 for n in steps})
    others = [
        (*chosen, rounded[-1])
        for count in range(most)
        for chosen in combinations(rounded[:-1], min(count, len(rounded) - 1))
    ]
    assert places(steps, found) == min(places(steps, sorted(set(one))) for one in others)


def test_lengths_by_hand():
    assert choose_lengths([9] * 90 + [60] * 10, most=2) == (16, 64)
    assert choose_lengths([9] * 90 + [33] + [60] * 10, most=2) == (16, 64)
    assert choose_lengths([9, 33, 60] * 5, most=8) == (16, 40, 64)
    assert choose_lengths([9, 77], limit=77) == (16, 77)  # no room beyond what the model takes
    assert padded(16, (16, 77)) == 16
    assert padded(17, (16, 77)) == 77
    with pytest.raises(WeftError, match="a row of 78 tokens; expected at most 77"):
        padded(78, (16, 77))
    with pytest.raises(WeftError, match="one step or more"):
        choose_lengths([])
    with pytest.raises(WeftError, match="one size or more"):
        choose_lengths([3], most=0)


@given(LENGTHS)
def test_a_row_is_left_for_no_example(steps):
    found = choose_rows(steps)
    assert len(found) <= 4
    assert all(any(rows < size for size in found) for rows in steps)
    assert found[-1] <= max(steps) + 8


def test_waste_is_what_is_no_token():
    # two batches of two rows, of 3 + 7 and of 20 + 20 tokens, padded to [2, 8] and [4, 24]
    found = waste(50, [7, 20], [2, 2], [(8, 2), (24, 4)])
    assert found.within == pytest.approx(4 / 112)
    assert found.rounding == pytest.approx(58 / 112)
    assert found.total == pytest.approx(1 - 50 / 112)
