"""Curves: the median and the range over seeds."""

from __future__ import annotations

import math
from statistics import fmean, median

from hypothesis import given
from hypothesis import strategies as st

from weft.reporting.curves import curve_of, first_reaching, table_of

SEEDS = st.lists(
    st.dictionaries(st.integers(0, 9), st.floats(0, 100) | st.just(math.nan), max_size=10), max_size=5
)


@given(SEEDS)
def test_median_and_range_of_the_seeds_that_have_a_value(seeds):
    curve = curve_of(seeds)
    assert list(curve.steps) == sorted(curve.steps)
    for place, step in enumerate(curve.steps):
        values = [points[step] for points in seeds if points.get(step, math.nan) == points.get(step)]
        assert curve.middle[place] == median(values)
        assert (curve.low[place], curve.high[place]) == (min(values), max(values))
        assert curve.seeds[place] == len(values) > 0


def test_the_line_may_be_the_mean():
    curve = curve_of([{1: 1.0}, {1: 2.0}, {1: 6.0}], fmean)
    assert (curve.low, curve.middle, curve.high) == ((1.0,), (3.0,), (6.0,))


def test_a_curve_says_if_seeds_are_missing_somewhere():
    assert curve_of([{1: 1.0, 2: 2.0}, {1: 1.0, 2: 3.0}]).whole
    assert not curve_of([{1: 1.0, 2: 2.0}, {1: 1.0}]).whole


@given(st.dictionaries(st.integers(0, 50), st.floats(0, 100)), st.floats(0, 100))
def test_the_first_step_that_reaches_a_goal(points, goal):
    step = first_reaching(points, goal)
    if step is None:
        assert all(value < goal for value in points.values())
    else:
        assert points[step] >= goal
        assert all(value < goal for other, value in points.items() if other < step)


def test_the_table_has_a_row_per_step_and_a_column_per_curve():
    table = table_of("x", {"a": curve_of([{1: 1.0, 2: 2.0}, {1: 3.0}]), "b": curve_of([{2: 5.0}])})
    assert table.columns == ("step", "a", "b")
    assert table.rows == [["1", "2.0 (1.0 to 3.0)", "–"], ["2", "2.0", "5.0"]]
