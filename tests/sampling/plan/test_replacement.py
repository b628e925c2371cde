"""Examples drawn with replacement."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.sampling import Plan
from weft.sampling.plan.replacement import Replacement, _times

AGAIN = {"use": "temperature", "replacement": True}


@given(st.integers(0, 2**64 - 1), st.integers(1, 2**32 - 1))
def test_a_draw_becomes_an_index_without_overflow(u, n):
    assert int(_times(np.array(u, np.uint64), np.array(n, np.uint64))) == u * n >> 64


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_every_example_is_as_likely_as_every_other(n):
    """Five standard deviations, of single examples and of pairs that follow each other."""
    draws = 200_000
    found = Replacement(np.array([3, n]), 1, 32).examples(1, 0, np.arange(draws))
    times = np.bincount(found, minlength=n)
    assert len(times) == n
    assert (abs(times - draws / n) <= 5 * np.sqrt(draws / n)).all()
    if n <= 7:
        pairs = np.bincount(found[:-1] * n + found[1:], minlength=n * n)
        assert (abs(pairs - draws / n**2) <= 5 * np.sqrt(draws / n**2)).all()


def test_a_million_examples_to_both_ends():
    n = 1_000_000
    found = Replacement(np.array([n]), 1, 32).examples(0, 0, np.arange(n))
    assert (found.min(), found.max()) == pytest.approx((0, n), abs=20)
    distinct = np.count_nonzero(np.bincount(found))  # n·(1 − 1/e) on average, a variance of n·(1/e − 2/e²)
    assert abs(distinct - n * (1 - np.exp(-1))) < 5 * np.sqrt(n * (np.exp(-1) - 2 * np.exp(-2)))


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_batches_are_always_full(mixed, grouped):
    lengths = [np.arange(1, n + 1) for n in (5, 1, 300)]
    plan = Plan([5, 1, 300], AGAIN, 1, 500, 8, mixed, lengths, grouped)
    steps = [plan.step(number) for number in range(500)]
    assert all(step.real == 8 and step.weight.all() for step in steps)
    assert all((step.index < plan.sizes[step.task]).all() for step in steps)
    for task, row in enumerate(plan.summary()):
        seen = np.concatenate([step.index[step.task == task] for step in steps])
        assert row.examples == len(seen)
        times = np.bincount(seen, minlength=row.size)
        mean = len(seen) / row.size
        # grouping leaves some draws of the last window for later
        assert (abs(times - mean) <= 6 * np.sqrt(mean)).all()
        assert row.size == 1 or not (np.sort(seen[: row.size]) == np.arange(row.size)).all()


def test_mixed_or_not_a_task_is_given_the_same_examples():
    streams = []
    for mixed in (False, True):
        plan = Plan([50, 300], AGAIN, 1, 200, 8, mixed)
        steps = [plan.step(number) for number in range(200)]
        streams.append([np.concatenate([s.index[s.task == task] for s in steps]) for task in (0, 1)])
    for one, other in zip(*streams, strict=True):
        both = min(len(one), len(other))
        assert both > 400
        assert (one[:both] == other[:both]).all()


def test_another_seed_or_task_draws_anew():
    found = [
        Replacement(np.array([900, 900]), s, 8).examples(t, 0, np.arange(50)) for s in (1, 2) for t in (0, 1)
    ]
    assert len({tuple(one) for one in found}) == 4


def test_an_epoch_is_as_many_examples_as_there_are():
    epoch = Plan([30, 30], AGAIN, 1, 10, 4).epoch()
    assert (epoch.steps, epoch.exact) == (pytest.approx(15), False)


def test_grouping_saves_padding():
    lengths = [np.random.default_rng(i).integers(1, 129, 3000) for i in range(2)]
    for mixed in (False, True):
        waste = [
            Plan([3000] * 2, AGAIN, 1, 640, 16, mixed, lengths, g).padding_waste() for g in (False, True)
        ]
        assert waste[0] > 0.4
        assert waste[1] < 0.1
