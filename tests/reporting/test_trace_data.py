"""Traces of records: what strangers may write there, windows, and means and ranges over seeds."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.experiments.records import Record
from weft.reporting.trace_data import LARGEST, ends_of, entries_of, mean_curves, share_curves

COUNTS = st.dictionaries(
    st.integers(0, 500),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 99).map(float), min_size=1),
    min_size=1,
    max_size=90,
)
ODD = (None, 3, -1.5, "", "x", [], [1], {}, {"a": None}, True, 10**400, math.inf, {"a": 10**400}, {"a": -1})


def record(**trace):
    return Record("0" * 64, trace=trace)


def test_entries_are_sorted_and_absent_lists_are_empty():
    listed = [{"step": 20, "entropy": {"a": 0.5}}, {"step": 10, "entropy": {"a": 1, "b": 0}}]
    assert list(entries_of(record(entropy=listed), "entropy").items()) == [
        (10, {"a": 1.0, "b": 0.0}),
        (20, {"a": 0.5}),
    ]
    assert entries_of(record(entropy=listed), "examples") == {}


@pytest.mark.parametrize("field", LARGEST)
@pytest.mark.parametrize("odd", ODD)
def test_damaged_entries_are_left_out(field, odd):
    good = {"step": 10, field: {"a": 1}}
    damaged = [odd, {"step": odd, field: {"a": 1}}, {"step": 20, field: odd}, {"step": 30, field: {"a": odd}}]
    kept = entries_of(record(**{field: [*damaged, good]}), field)
    if field == "examples":  # a count may be 3
        kept.pop(30, None)
    kept.pop(3, None)  # a step may be 3
    assert kept == {10: {"a": 1.0}}
    assert entries_of(record(**{field: odd}), field) == {}


def test_an_entropy_is_at_most_one():
    assert entries_of(record(entropy=[{"step": 1, "entropy": {"a": 1.5, "b": 1.0}}]), "entropy") == {
        1: {"b": 1.0}
    }


@given(st.sets(st.integers(0, 1000)), st.integers(1, 20))
def test_windows_end_at_entries_and_the_last_one_is_whole(steps, most):
    ends = ends_of([{step: {} for step in steps}], most)
    assert len(ends) <= most
    assert set(ends) <= steps
    ordered = sorted(steps)
    assert ends[-1:] == ordered[-1:]
    places = [ordered.index(end) for end in ends]
    assert len({b - a for a, b in pairwise(places)}) <= 1


@given(st.lists(COUNTS, min_size=1, max_size=4))
def test_shares_of_all_tasks_are_the_whole(seeds):
    curves = share_curves(seeds)
    for step in {step for curve in curves.values() for step in curve.steps}:
        of_step = [curve.middle[curve.steps.index(step)] for curve in curves.values() if step in curve.steps]
        assert sum(of_step) == pytest.approx(1)
    for curve in curves.values():
        for low, middle, high in zip(curve.low, curve.middle, curve.high, strict=True):
            assert -1e-9 <= low <= middle + 1e-9
            assert middle <= high + 1e-9


def test_shares_are_those_of_a_window_and_means_those_of_seeds():
    first = {10: {"a": 30.0, "b": 10.0}, 20: {"b": 8.0}}
    second = {10: {"a": 1.0, "b": 3.0}, 20: {"b": 5.0}}
    curves = share_curves([first, second])
    assert (curves["a"].steps, curves["a"].middle) == ((10, 20), (0.5, 0.0))
    assert (curves["a"].low[0], curves["a"].high[0]) == (0.25, 0.75)
    assert curves["b"].middle == (0.5, 1.0)


def test_entropies_of_a_window_are_averaged():
    entries = {step: {"a": step / 100} for step in range(1, 81)}
    curve = mean_curves([entries])["a"]
    assert curve.steps == tuple(range(2, 81, 2))
    assert curve.middle[0] == pytest.approx(0.015)
    assert mean_curves([]) == {}
