"""Intervals, p values, Holm's correction and what could have been shown, beside scipy and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from weft.experiments.statistics.components import Components
from weft.experiments.statistics.intervals import critical, interval, p_value
from weft.experiments.statistics.verdicts import holm, needed, smallest_shown, verdicts


def parts(seeds=3, seed_variance=1.0, row_variance=0.0, row_df=500.0, estimate=0.0, paired=True):
    noise = row_variance**2 / row_df
    return Components(estimate, seeds, seed_variance, float(seeds - 1), row_variance, row_df, noise, paired)


@pytest.mark.parametrize("seeds", [2, 3, 5, 20])
@pytest.mark.parametrize("distance", [0.1, 1.0, 3.0, 12.0])
def test_without_a_row_part_it_is_students_t_test(seeds, distance):
    expected = 2 * stats.t.sf(distance / 1.5, seeds - 1)
    assert p_value(distance, parts(seeds, 2.25)) == pytest.approx(expected, rel=1e-3)
    low, high = interval(parts(seeds, 2.25, estimate=7.0), 0.95)
    half = 1.5 * stats.t.ppf(0.975, seeds - 1)
    assert (low, high) == pytest.approx((7 - half, 7 + half))


@pytest.mark.parametrize("distance", [0.5, 2.0, 4.0])
def test_without_a_seed_part_it_is_the_rows_t_test(distance):
    for seed_variance in (0.0, None):
        rows = parts(3, seed_variance, 1.0)
        assert p_value(distance, rows) == pytest.approx(2 * stats.t.sf(distance, 500))
        assert interval(rows, 0.95) == pytest.approx(stats.t.interval(0.95, 500))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_p_values_are_those_of_behrens_and_fisher(share):
    draw = np.random.default_rng(0)
    sums = np.sqrt(1 - share) * draw.standard_t(2, 400_000) + np.sqrt(share) * draw.standard_t(500, 400_000)
    for distance in (1.0, 2.0, 4.0):
        expected = (np.abs(sums) >= distance).mean()
        assert p_value(distance, parts(3, 1 - share, share)) == pytest.approx(expected, rel=0.03)


def test_satterthwaites_degrees_of_freedom():
    """Between those of the parts: all seeds, all rows, and Welch's formula in between."""
    assert parts(5, 1.0, 0.0).df == pytest.approx(4)
    assert parts(5, 0.0, 1.0).df == pytest.approx(500)
    assert parts(5, 2.0, 1.0).df == pytest.approx(9 / (4 / 4 + 1 / 500))
    assert Components(0.0, 3, None, 0.0, None, 0.0, 0.0).variance is None
    assert interval(Components(0.0, 1, None, 0.0, None, 0.0, 0.0), 0.95) is None


@pytest.mark.parametrize("level", [0.05, 0.05 / 6, 0.05 / 24])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_critical_distances_have_their_level(level, share):
    case = parts(3, 1 - share, share)
    assert p_value(critical(level, case), case) == pytest.approx(level, rel=0.01)


@pytest.mark.parametrize("level", [0.05, 0.05 / 6])
@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.9])
def test_p_values_keep_their_level_with_three_seeds_where_satterthwaites_do_not(share, level):
    """The reason for two distributions: the level of the t test is exceeded, that of p values never."""
    draw = np.random.default_rng(1)
    estimates = np.abs(draw.normal(size=40_000))
    variances = (1 - share) * draw.chisquare(2, 40_000) / 2
    decided = np.zeros(2)
    grid = np.geomspace(1e-5, 12, 60)
    limits = [critical(level, parts(3, float(v), share)) for v in grid]
    limit = np.interp(variances, grid, limits)
    df = 2 * (variances + share) ** 2 / variances**2
    t_limit = stats.t.ppf(1 - level / 2, df) * np.sqrt(variances + share)
    decided = (estimates > limit).mean(), (estimates > t_limit).mean()
    assert decided[0] <= 1.1 * level
    if share <= 0.2:
        assert decided[1] > 1.3 * level


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm(values):
    corrected = holm(values)
    order = np.argsort(values, kind="stable")
    count = len(values)
    for rank, i in enumerate(order):
        so_far = [min(1.0, values[j] * (count - r)) for r, j in enumerate(order[: rank + 1])]
        assert corrected[i] == pytest.approx(max(so_far))
    assert all(new >= old for old, new in zip(values, corrected, strict=True))


def test_a_verdict_needs_three_seeds_and_the_corrected_level():
    clear = parts(5, 1e-6, 1e-6, estimate=0.05)
    unclear = parts(5, 1e-4, 1e-4, estimate=0.01)
    few = parts(2, 1e-6, 1e-6, estimate=0.5)
    same = parts(3, 0.0, 0.0, estimate=0.5)
    found = verdicts([(clear, None), (unclear, None), (few, None), (None, None), (same, None)])
    assert [v.verdict for v in found] == ["better", "undecided", None, None, None]
    assert found[2].reason == "needs at least 3 seeds; has 2"
    assert found[3].reason == "a value of the average is missing"
    assert "do not vary" in found[4].reason
    assert found[0].p_holm == pytest.approx(2 * found[0].p)  # two were tested
    assert found[0].needs is None
    worse = verdicts([(parts(5, 1e-6, 1e-6, estimate=-0.05), None)])[0]
    assert worse.verdict == "worse"
    # significant alone, not in a family of ten
    edge = parts(5, 1e-4, 0.0, estimate=0.032)
    assert verdicts([(edge, None)])[0].verdict == "better"
    assert verdicts([(edge, None)] * 10)[0].verdict == "undecided"


@pytest.mark.parametrize(
    ("estimate", "verdict"), [(0.0, "held"), (-0.004, "held"), (-0.0095, "undecided"), (-0.03, "not held")]
)
def test_a_claim_with_a_margin(estimate, verdict):
    """Held: the interval lies above −margin. Not held: it lies below."""
    claim = parts(5, 1e-6, 1e-6, estimate=estimate)
    found = verdicts([(claim, 0.01)])[0]
    assert found.verdict == verdict
    low, high = interval(claim, 0.95)
    assert {"held": low > -0.01, "not held": high < -0.01, "undecided": low < -0.01 < high}[verdict]


def test_what_an_undecided_contrast_needs():
    by_seeds = parts(3, 1e-4, 1e-8)
    needs = needed(0.01, by_seeds, 0.05)
    assert not needs.rows
    assert needs.seeds is not None
    more = parts(needs.seeds, 1e-4 * 3 / needs.seeds, 1e-8)
    fewer = parts(needs.seeds - 1, 1e-4 * 3 / (needs.seeds - 1), 1e-8)
    assert p_value(0.01, more) < 0.05 <= p_value(0.01, fewer)
    assert needs.text == f"about {needs.seeds} seeds"
    assert needed(0.01, parts(3, 1e-4, 1e-4), 0.05).text == "more rows"
    assert needed(1e-7, parts(3, 1e-4, 0.0), 0.05).text == "more than 1,000 seeds"


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_smallest_difference_is_shown_four_times_out_of_five(share):
    draw = np.random.default_rng(2)
    seeds, level = 5, 0.05 / 4
    truth = smallest_shown(parts(seeds, 1 - share, share), level)
    shown = 0
    for _ in range(1500):
        variance = (1 - share) * draw.chisquare(seeds - 1) / (seeds - 1)
        case = parts(seeds, variance, share)
        shown += truth + draw.normal() > critical(level, case)
    assert 0.72 < shown / 1500 < 0.9
