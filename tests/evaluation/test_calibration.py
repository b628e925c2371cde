"""Expected calibration error: its range, its definition by loops, and cases written by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from weft.evaluation.calibration import BINS, calibration_facts, expected_calibration_error, reliability
from weft.tasks import Task
from weft.tasks.kinds.decisions import Decisions

LOGITS = arrays.arrays(np.float32, (20, 3), elements=st.floats(-20, 20, width=32))
GOLD = arrays.arrays(np.int64, (20,), elements=st.integers(0, 2))


def by_loops(decisions, bins):
    """The definition, one decision after the other."""
    members = [[] for _ in range(bins)]
    for confidence, right in zip(decisions.confidence(), decisions.is_right, strict=True):
        number = next(b for b in range(bins) if confidence <= (b + 1) / bins or b == bins - 1)
        members[number].append((confidence, right))
    total = 0.0
    for inside in members:
        if inside:
            gap = np.mean([right for _, right in inside]) - np.mean([c for c, _ in inside])
            total += len(inside) / len(decisions) * abs(gap)
    return total


@given(LOGITS, GOLD, st.floats(0.05, 20))
def test_it_is_from_0_to_1_and_its_bins_hold_every_decision(logits, gold, temperature):
    decisions = Decisions.of_classes(logits, gold)
    assert 0 <= expected_calibration_error(decisions, temperature) <= 1
    bins = reliability(decisions, temperature)
    assert sum(b.count for b in bins) == len(decisions)
    assert all(0 <= b.accuracy <= 1 for b in bins)
    assert all(b.low - 1e-9 <= b.confidence <= b.high + 1e-9 for b in bins)


@given(arrays.arrays(np.float32, (20, 2), elements=st.floats(-3, 3, width=16)), st.integers(0, 99))
def test_it_follows_the_definition(logits, seed):
    gold = np.random.default_rng(seed).integers(0, 2, 20)
    decisions = Decisions.of_classes(logits, gold)
    edges = np.arange(1, 8) / 7
    if np.abs(decisions.confidence()[:, None] - edges).min() < 1e-9:
        return  # at an edge, rounding decides
    assert expected_calibration_error(decisions, bins=7) == pytest.approx(by_loops(decisions, 7))


@pytest.mark.parametrize(
    ("right", "expected"), [([1, 1, 1, 1], 0.2), ([1, 1, 1, 0], 0.05), ([0, 0, 0, 0], 0.8)]
)
def test_by_hand(right, expected):
    """Four decisions with the probability 0.8."""
    logits = np.tile([np.log(4.0), 0.0], (4, 1))
    decisions = Decisions.of_classes(logits, [1 - r for r in right])
    assert expected_calibration_error(decisions) == pytest.approx(expected)


def test_facts_use_the_temperature_of_the_task():
    decisions = Decisions.of_classes(np.tile([4.0, 0.0], (4, 1)), [0, 0, 0, 1])
    plain = calibration_facts(decisions, Task("x", labels=("a", "b")))
    cooled = calibration_facts(
        decisions, Task("x", labels=("a", "b"), temperature=3.6, calibrated_on="validation")
    )
    assert (plain["temperature"], plain["fitted_on"], plain["bins"]) == (None, None, BINS)
    assert (cooled["temperature"], cooled["fitted_on"]) == (3.6, "validation")
    assert cooled["nll"] < plain["nll"]
    assert cooled["ece"] < plain["ece"]
    assert sum(b["count"] for b in plain["reliability"]) == plain["count"] == 4
