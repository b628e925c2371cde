"""Scales: order, ends and ticks."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from weft.reporting.pictures.scale import Scale, fitted, nice_numbers, short_number

NUMBERS = st.floats(-1e9, 1e9)


@given(st.lists(NUMBERS, min_size=1), st.booleans())
def test_a_fitted_scale_holds_its_values_in_order(values, log):
    assume(not log or all(value > 1e-9 for value in values))
    scale = fitted(values, 10, 200, log=log)
    places = [scale.at(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(9.99 <= place <= 200.01 for place in places)
    assert math.isfinite(scale.at(values[0]))


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 8))
def test_ticks_are_inside_round_and_evenly_spaced(low, length, count):
    ticks = nice_numbers(low, low + length, count)
    assert 1 <= len(ticks) <= 2 * count + 1
    room = 1e-6 * max(1.0, abs(low) + length)
    assert all(low - room <= tick <= low + length + room for tick in ticks)
    steps = {round((b - a) / length, 6) for a, b in itertools.pairwise(ticks)}
    assert len(steps) <= 1


def test_values_that_are_not_finite_are_left_out():
    scale = fitted([math.nan, 1.0, math.inf, 3.0], 0, 100, pad=0.0)
    assert (scale.low, scale.high) == (1.0, 3.0)
    assert fitted([], 0, 1).ticks()
    assert fitted([0.0, -1.0, 10.0, 1000.0], 0, 100, log=True, pad=0.0).low == 10.0


def test_equal_values_stand_in_the_middle():
    assert fitted([5.0, 5.0], 0, 100).at(5.0) == pytest.approx(50)
    assert fitted([5.0], 0, 100, log=True).at(5.0) == pytest.approx(50)


def test_logarithmic_ticks():
    assert Scale(1, 1e6, 0, 1, log=True).ticks(4) == pytest.approx([10.0**n for n in range(7)])
    assert Scale(900, 1100, 0, 1, log=True).ticks(4) == pytest.approx([900, 950, 1000, 1050, 1100])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (1500, "1,500"),
        (12_000, "12k"),
        (2.3e6, "2.3M"),
        (-4, "−4"),
        (math.nan, "–"),
    ],
)
def test_short_numbers(value, text):
    assert short_number(value) == text
