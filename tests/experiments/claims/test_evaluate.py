"""Claims against simulated results: verdicts, intervals, and what an undecided one would take."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.support.claim_results import Results, two
from weft.experiments.claims import (
    ClaimResult,
    Interval,
    Term,
    all_held,
    evaluate_claim,
    evaluate_claims,
    parse_claim,
)
from weft.experiments.claims.evaluate import counts, seeds_needed, t_interval
from weft.experiments.claims.values import linear
from weft.experiments.grid import Claim


def verdict(test: str, data: Results) -> ClaimResult:
    return evaluate_claim("a sentence", test, data)


def test_held_not_held_and_undecided():
    clear = two([81, 82, 83, 82], [70, 71.5, 72, 70.5])
    assert verdict("average(a) > average(b)", clear).verdict == "held"
    assert verdict("average(a) < average(b)", clear).verdict == "not held"
    assert verdict("gain(a, b) >= 5", clear).verdict == "held"
    assert verdict("gain(a, b) >= 20", clear).verdict == "not held"
    near = two([80, 82, 78, 81], [80.5, 80, 79.5, 80.3])
    assert verdict("average(a) > average(b)", near).verdict == "undecided"
    assert verdict("average(a) >= average(b) margin 5", near).verdict == "held"


def test_the_interval_is_the_paired_one():
    data = two([81, 82, 84], [80, 80.5, 81])
    result = verdict("average(a) > average(b)", data)
    differences = np.array([1, 1.5, 3.0])
    low, high = stats.t.interval(0.95, 2, differences.mean(), stats.sem(differences))
    assert result.estimate == pytest.approx(differences.mean())
    assert result.interval == pytest.approx((low, high))
    assert result.seeds == 3
    reverse = verdict("average(b) < average(a)", data)
    assert (reverse.verdict, reverse.interval) == (result.verdict, result.interval)


def test_sums_of_scores_have_the_interval_of_the_statistics():
    data = two([81, 82, 84], [80, 80.5, 81])
    data.interval = Interval(1.8, 0.2, 3.4, 7.5)
    result = verdict("average(a) >= average(b) + 1", data)
    assert data.asked == [(Term(1.0, "a"), Term(-1.0, "b"))]
    assert result.interval == pytest.approx((-0.8, 2.4))
    assert result.estimate == pytest.approx(0.8)
    assert result.verdict == "undecided"
    assert verdict("gain(a, b) > 0", data).verdict == "held"
    # a ratio is no sum: its interval is over seeds
    data.asked.clear()
    ratio = verdict("average(a) / average(b) > 1", data)
    assert data.asked == []
    assert ratio.estimate == pytest.approx(np.mean([81 / 80, 82 / 80.5, 84 / 81]) - 1)


def test_fewer_than_three_seeds_decide_nothing():
    result = verdict("average(a) > average(b)", two([90, 91], [10, 11]))
    assert result.verdict == "undecided"
    assert result.interval is None
    assert result.estimate == pytest.approx(80)
    assert result.why == "2 seeds; at least 3 are needed: seeds=3"
    none = verdict("average(a) > average(c)", two([90, 91, 92], [1, 2, 3]))
    assert none.verdict == "undecided"
    assert "variant 'c' has no score for average" in none.why


def test_only_common_seeds_are_paired():
    data = Results(
        {
            "a": {s: {"x": 80.0 + s} for s in (1, 2, 3, 4)},
            "b": {s: {"x": 70.0 + s} for s in (2, 3, 4, 5)},
        }
    )
    result = verdict("average(a) - average(b) >= 10", data)
    assert (result.verdict, result.seeds, result.estimate) == ("held", 3, 0.0)


def test_counts_are_compared_exactly():
    data = Results(
        facts={
            ("total_ratio", "pals"): {1: 1.13},
            ("total_ratio", "full"): {1: 1.0},
            ("total_ratio", "same"): {1: 1.0},
            ("measure", "lora"): {1: 5.1},
            ("measure", "all"): {1: 111.8},
        }
    )
    assert verdict("total_ratio(pals) > total_ratio(full)", data).verdict == "held"
    assert verdict("total_ratio(same) > total_ratio(full)", data).verdict == "not held"
    assert verdict("total_ratio(same) >= total_ratio(full)", data).verdict == "held"
    assert verdict("total_ratio(full) >= total_ratio(pals) margin 0.2", data).verdict == "held"
    exact = verdict("measure(lora, incremental) < 0.1 * measure(all, incremental)", data)
    assert (exact.verdict, exact.interval) == ("held", None)
    assert "exact" in exact.why
    varying = verdict("measure(lora, covariance) < measure(all, covariance)", data)
    assert varying.verdict == "undecided"


def test_counts_that_vary_with_the_seed_are_not_exact():
    data = Results(
        facts={
            ("total_ratio", "l0"): {1: 1.01, 2: 1.02, 3: 1.03},
            ("total_ratio", "all"): {1: 1.024, 2: 1.024, 3: 1.024},
        }
    )
    result = verdict("total_ratio(l0) < total_ratio(all)", data)
    assert (result.verdict, result.seeds) == ("undecided", 3)
    assert result.interval is not None


def curve(*points: float, rte: float = 50.0):
    return [(100 * (i + 1), {"cola": x, "rte": rte}) for i, x in enumerate(points)]


def test_curves():
    data = Results(
        curves={
            "fast": {s: curve(30, 58, 59, 60) for s in (1, 2, 3)},
            "slow": {s: curve(10, 20 + s, 50, 60) for s in (1, 2, 3)},
        }
    )
    assert verdict("steps_to(fast, 0.8, cola) < steps_to(slow, 0.8, cola)", data).estimate == 100
    assert verdict("steps_to(fast, 0.8, cola) <= 200", data).verdict == "held"
    assert verdict("steps_to(fast, 1, cola) > 399", data).verdict == "held"
    assert verdict("steps_to_score(slow, 50, cola) >= 300", data).verdict == "held"
    assert verdict("peak(fast) >= 55", data).verdict == "held"  # the mean of 60 and 50
    assert verdict("last(fast) >= 55", data).verdict == "held"
    assert verdict("fall(fast, cola) <= 0", data).verdict == "held"
    never = verdict("steps_to_score(fast, 90) < steps_to_score(slow, 90)", data)
    assert never.verdict == "undecided"
    assert "'fast', seed 1, never reaches 90.0" in never.why
    assert "has no curve; expected train.evaluate_every" in verdict("peak(other) > 1", data).why
    assert "has no wnli" in verdict("peak(fast, wnli) > 1", data).why


def test_the_fall_from_a_peak():
    data = Results(curves={"a": {s: curve(30, 60, 40 + s) for s in (1, 2, 3)}})
    assert verdict("fall(a, cola) > 10", data).estimate == pytest.approx(8)


def test_the_last_value_is_not_the_best_one():
    data = Results(curves={"a": {s: curve(30, 60, 40 + s) for s in (1, 2, 3)}})
    assert verdict("last(a, cola) > 40", data).estimate == pytest.approx(2)
    assert verdict("last(a) > 45", data).estimate == pytest.approx(1)  # with the 50 of rte
    assert verdict("peak(a, cola) - fall(a, cola) <= last(a, cola)", data).verdict == "held"


def test_tasks_are_counted_and_ranked():
    scores = {
        "a": {s: {"x": 5.0, "y": 3.0, "z": 2.0} for s in (1, 2, 3)},
        "b": {s: {"x": 5.0, "y": 4.0, "z": 1.0} for s in (1, 2, 3)},
    }
    hard = {1: {"x": 3.0, "y": 2.0, "z": 1.0, "only here": 9.0}}
    peaks = {s: {"x": 1.0, "y": 10.0, "z": 100.0 + s} for s in (1, 2, 3)}
    data = Results(scores, tasks={("difficulty", None): hard, ("first_peak", None): peaks})
    assert verdict("best_task_count(a, b) >= 2", data).verdict == "held"
    assert verdict("best_task_count(a, b) > 2", data).verdict == "not held"
    assert verdict("task_count(score(a), score(b)) >= 2", data).verdict == "held"
    result = verdict("rank_correlation(difficulty, first_peak) < 0", data)
    assert (result.verdict, result.estimate) == ("held", pytest.approx(1.0))
    assert verdict("rank_correlation(difficulty, first_peak) > 0", data).verdict == "not held"
    few = Results(tasks={("difficulty", None): {1: {"x": 1.0}}, ("first_peak", None): {1: {"x": 1.0}}})
    assert "needs 3 tasks" in verdict("rank_correlation(difficulty, first_peak) > 0", few).why
    assert "there is no difficulty" in verdict("rank_correlation(difficulty, first_peak) > 0", Results()).why


def test_a_division_by_zero_is_no_value():
    data = two([1, 2, 3], [0, 0, 0])
    result = verdict("average(a) / average(b) > 0", data)
    assert result.verdict == "undecided"
    assert "division by zero" in result.why


def test_equal_scores_decide_nothing_but_that_none_is_worse():
    same = two([80, 81, 82], [80, 81, 82])
    assert verdict("average(a) > average(b)", same).verdict == "undecided"
    assert verdict("average(a) >= average(b)", same).verdict == "held"
    assert "does not lie above 0" in verdict("best_task_count(a, b) > 1", same).why


def test_what_an_undecided_claim_would_take():
    result = verdict("average(a) > average(b)", two([80, 82, 78, 81], [79, 80, 79.5, 78.3]))
    assert result.verdict == "undecided"
    assert "if the difference stays, about" in result.why
    assert "if the variation comes from seeds" in result.why
    equal = verdict("average(a) > average(b)", two([80, 82, 78], [81, 79, 80]))
    assert equal.estimate == pytest.approx(0)
    assert "more than 1000 seeds" in equal.why


@given(st.floats(0.05, 3), st.floats(0.1, 5), st.integers(3, 12))
def test_that_number_of_seeds_is_the_smallest_that_decides(distance, deviation, seeds):
    def half(n: int) -> float:
        return float(stats.t.ppf(0.975, n - 1)) * deviation / n**0.5

    interval = Interval(distance, distance - half(seeds), distance + half(seeds), seeds - 1)
    needed = seeds_needed(interval, distance, seeds)
    if needed is None:
        assert half(1000) >= distance * (1 - 1e-9)
    else:
        assert half(needed) < distance * (1 + 1e-9)
        assert needed == seeds or half(needed - 1) >= distance * (1 - 1e-9)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=20))
def test_the_t_interval_is_scipys(values):
    made = t_interval(values)
    if len(set(values)) > 1 and np.std(values) > 1e-9:
        expected = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
        assert (made.low, made.high) == pytest.approx(expected, abs=1e-9)
    assert made.low <= made.estimate <= made.high


def test_equal_variants_rarely_seem_different():
    """With no difference at all, one claim in twenty is decided."""
    draw = np.random.default_rng(1)
    verdicts = [
        verdict("average(a) > average(b)", two(draw.normal(80, 1, 5), draw.normal(80, 1, 5))).verdict
        for _ in range(600)
    ]
    decided = 1 - verdicts.count("undecided") / len(verdicts)
    assert 0.02 < decided < 0.09
    assert verdicts.count("held") > 0
    assert verdicts.count("not held") > 0


def test_sums_of_scores_are_recognized():
    def terms(test: str):
        return linear(parse_claim(test).difference)

    assert terms("2 * average(a) - average(b) / 4 > 3").terms == (Term(2.0, "a"), Term(-0.25, "b"))
    assert terms("2 * average(a) - average(b) / 4 > 3").constant == -3
    assert terms("average(a) + score(a, x) > average(a)").terms == (Term(1.0, "a", "x"),)
    assert terms("gain(a, b) < gain(c, b)").terms == (Term(1.0, "c"), Term(-1.0, "a"))
    assert terms("average(a) / average(b) > 1") is None
    assert terms("average(a) > seconds(b)") is None
    assert terms("average(a) > average(a)") is None  # nothing is left of it


def test_results_are_json_and_strict_needs_all_held():
    data = two([81, 82, 83], [70, 71.5, 72])
    claims = [Claim("better", "average(a) > average(b)"), Claim("worse", "average(a) < average(b)")]
    results = evaluate_claims(claims, data)
    assert [result.verdict for result in results] == ["held", "not held"]
    assert all_held(results[:1])
    assert not all_held(results)
    assert counts(results) == {"held": 1, "not held": 1, "undecided": 0}
    facts = json.loads(json.dumps(results[0].to_dict(), allow_nan=False))
    assert facts["text"] == "better"
    assert facts["verdict"] == "held"
    assert len(facts["interval"]) == 2
