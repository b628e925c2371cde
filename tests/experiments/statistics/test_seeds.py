"""The spread of scores between seeds, and how far two of them may differ."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from weft.experiments.statistics.seeds import SeedSpread, seed_spread

VARIANTS = st.lists(st.lists(st.floats(0, 1), max_size=4), min_size=1, max_size=4)


@given(VARIANTS)
def test_the_deviation_is_pooled_over_variants(variants):
    df = sum(max(len(scores) - 1, 0) for scores in variants)
    found = seed_spread(variants)
    if not df:
        assert found is None
        return
    assert found.df == df
    squares = sum(len(scores) * np.var(scores) for scores in variants if scores)
    assert found.deviation == pytest.approx(np.sqrt(squares / df), abs=1e-9)


@given(VARIANTS, st.floats(-1, 1), st.floats(0.1, 10))
def test_it_moves_with_no_constant_and_grows_with_the_scores(variants, constant, factor):
    one, other = seed_spread(variants), seed_spread([[constant + factor * x for x in of] for of in variants])
    assert (one is None) == (other is None)
    if one is not None:
        assert other.deviation == pytest.approx(factor * one.deviation, abs=1e-9)


@given(st.floats(0, 1), st.integers(1, 200), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_the_largest_difference_is_students(deviation, df, level):
    found = SeedSpread(deviation, df).largest_difference(level)
    assert found == pytest.approx(t.ppf((1 + level) / 2, df) * np.sqrt(2) * deviation, abs=1e-9)
    # with few degrees of freedom the deviation is uncertain: more is allowed, and never less than the normal
    assert found >= SeedSpread(deviation, df + 1).largest_difference(level)
    assert SeedSpread(deviation, df).largest_difference() >= 1.959 * np.sqrt(2) * deviation


@pytest.mark.parametrize("sizes", [(2,), (3, 3), (2, 3, 4)])
def test_a_new_seed_is_within_the_interval_in_95_percent_of_cases_or_a_little_more(sizes):
    """More, because the first of both scores is among those that give the deviation."""
    draw = np.random.default_rng(5)
    inside = 0
    for _ in range(2000):
        variants = [draw.normal(center, 1.0, size).tolist() for center, size in enumerate(sizes)]
        inside += abs(draw.normal() - variants[0][0]) <= seed_spread(variants).largest_difference()
    assert 0.94 <= inside / 2000 <= 0.99
