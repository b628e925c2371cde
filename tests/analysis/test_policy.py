"""A policy from logged rewards: on logs that are drawn here, where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from weft.analysis.policy import Window, estimate, learn_policy
from weft.errors import WeftError

SKEWED = np.array([0.4, 0.3, 0.2, 0.1])
OTHER = np.array([0.1, 0.2, 0.3, 0.4])


def logs(q, p, windows, draws, noise, seed, trend=0.0, runs=1):
    """Windows whose reward is the sum of the draws' own, q [T], each a step, with noise on top."""
    draw = np.random.default_rng(seed)
    p = np.asarray(p, float)
    counts = draw.multinomial(draws, p, windows).astype(float)
    rewards = counts @ q + noise * draw.normal(size=windows) + trend * draws * 0.8 ** np.arange(windows)
    pairs = enumerate(zip(counts, rewards.tolist(), strict=True))
    return [Window(draws, own, p, reward, number * runs // windows) for number, (own, reward) in pairs]


@given(best=st.integers(0, 3), seed=st.integers(0, 99), mixed=st.booleans())
@settings(max_examples=examples(12), deadline=None)
def test_the_only_task_that_is_rewarded_is_drawn_most(best, seed, mixed):
    q = np.eye(4)[best]
    windows = logs(q, SKEWED if mixed else np.full(4, 0.25), 300, 20, 1.0, seed)
    found = learn_policy(windows, clip=10, caution=1)
    assert found.policy.argmax() == found.values.argmax() == best
    assert found.policy[best] > found.logging[best]
    assert found.gain.value > 0
    assert found.held_out.value > 0
    assert np.abs(found.values - q).max() < 6 * found.errors.max()


@given(seed=st.integers(0, 99), reward=st.floats(-2, 2))
@settings(max_examples=examples(10), deadline=None)
def test_equal_rewards_leave_the_logging_policy(seed, reward):
    """Of equal rewards nothing is learned: no matter which tasks were drawn, the score rose alike."""
    found = learn_policy(logs(np.full(4, reward / 10), SKEWED, 30, 10, 0.0, seed))
    assert np.allclose(found.policy, SKEWED, atol=1e-6)
    assert found.gain.value == pytest.approx(0, abs=1e-9)
    assert found.effective == pytest.approx(30, rel=1e-4)
    assert found.observed.value == pytest.approx(found.estimated.value) == pytest.approx(reward / 10)


def test_the_estimate_is_unbiased():
    """Over 2,000 logs the mean of V̂ is the truth within 4 of its standard errors, which are small beside it.

    Rewards fall with time as scores do. An estimate that gives each draw its window's whole reward without
    the weight of the others would stay at the logging policy's value, far outside.
    """
    q, trend = np.array([1.0, 0.0, 0.0, 0.5]), 3.0
    found = [estimate(logs(q, SKEWED, 12, 15, 2.0, seed, trend), OTHER) for seed in range(2000)]
    values = np.array([one.value for one in found])
    fall = trend * np.mean(0.8 ** np.arange(12))
    truth, logged = q @ OTHER + fall, q @ SKEWED + fall
    error = values.std() / np.sqrt(len(values))
    assert error < 0.1 * abs(truth - logged)
    assert abs(values.mean() - truth) < 4 * error
    # and the standard errors that it tells are those that it has, the fall apart, which does not vary
    steady = [estimate(logs(q, SKEWED, 12, 15, 2.0, seed), OTHER) for seed in range(500)]
    told = np.sqrt(np.mean([one.error**2 for one in steady]))
    assert 0.7 < told / np.std([one.value for one in steady]) < 1.4


def test_the_baseline_takes_the_fall_out_of_the_values():
    """Rewards that fall with time say nothing of tasks: values with the fall are almost as sure."""
    q = np.array([1.0, 0.0, 0.0, 0.5])
    plain = learn_policy(logs(q, SKEWED, 40, 15, 2.0, 3))
    falling = learn_policy(logs(q, SKEWED, 40, 15, 2.0, 3, trend=3.0))
    assert (falling.errors < 2 * plain.errors).all()


probabilities = st.lists(st.floats(0.02, 1), min_size=1, max_size=8).map(lambda p: np.array(p) / sum(p))


@given(
    p=probabilities,
    seed=st.integers(0, 99),
    caution=st.sampled_from([1e-3, 0.5, 2, 50]),
    clip=st.sampled_from([1, 2, 100]),
    floor=st.sampled_from([None, 0.0, 0.05, "uniform"]),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
@settings(max_examples=examples(30), deadline=None)
def test_every_policy_is_one_and_keeps_its_bounds(p, seed, caution, clip, floor, scale):
    draw = np.random.default_rng(seed)
    floor = 1 / len(p) if floor == "uniform" else floor
    windows = logs(scale * draw.normal(size=len(p)), p, 12, 9, scale, seed, runs=2)
    found = learn_policy(windows, caution=caution, clip=clip, floor=floor)
    least = 0.1 / len(p) if floor is None else floor
    assert found.policy.sum() == pytest.approx(1)
    assert (found.policy >= least - 1e-9).all()
    assert (found.policy <= np.maximum(clip * p, least) + 1e-9).all()
    assert np.allclose(found.logging, p)
    assert 0 < found.effective <= 12 + 1e-9


@given(seed=st.integers(0, 99), data=st.data())
@settings(max_examples=examples(10), deadline=None)
def test_neither_the_tasks_order_nor_the_rewards_unit_matters(seed, data):
    order = np.array(data.draw(st.permutations(range(4))))
    windows = logs(np.array([1.0, -1.0, 0.0, 0.5]), SKEWED, 20, 9, 1.0, seed, runs=2)
    found = learn_policy(windows)
    turned = [Window(w.steps, w.draws[order], w.share[order], 7 * w.reward, w.run) for w in windows]
    other = learn_policy(turned)
    assert np.allclose(other.policy, found.policy[order])
    assert np.allclose(other.values, 7 * found.values[order])
    assert other.held_out.value == pytest.approx(7 * found.held_out.value)


def test_windows_of_several_lengths_and_policies_are_one_log():
    """Twice the steps have twice the reward: values are a step, whatever the windows' lengths."""
    q = np.array([1.0, 0.0])
    both = logs(q, [0.5, 0.5], 400, 10, 0.5, 1) + [
        Window(w.steps, w.draws, w.share, w.reward, 1) for w in logs(q, [0.8, 0.2], 400, 20, 0.5, 2)
    ]
    found = learn_policy(both)
    assert found.logging == pytest.approx([0.7, 0.3])  # by steps
    assert np.abs(found.values - q).max() < 4 * found.errors.max() < 0.5


def test_a_more_cautious_policy_is_nearer_to_the_logged_one():
    windows = logs(np.array([1.0, 0.0, 0.0, 0.0]), SKEWED, 100, 9, 1.0, 1)
    far = [
        np.abs(learn_policy(windows, caution=caution, clip=100).policy - SKEWED).sum()
        for caution in (2, 10, 50)
    ]
    assert far[0] > far[1] > far[2] > 0


def test_what_cannot_be_learned_from():
    good = logs(np.zeros(2), [0.5, 0.5], 4, 5, 1.0, 1)
    with pytest.raises(WeftError, match="at least two windows; found 1"):
        learn_policy(good[:1])
    with pytest.raises(WeftError, match="run 1 has one window"):
        learn_policy([*good, Window(5, np.ones(2), np.full(2, 0.5), 0.0, run=1)])
    with pytest.raises(WeftError, match="found a share of 0"):
        learn_policy([*good, Window(5, np.ones(2), np.array([1.0, 0.0]), 0.0)])
    for wrong in ({"caution": 0}, {"clip": 0.5}, {"floor": 0.6}, {"caution": float("nan")}):
        with pytest.raises(WeftError, match="caution above 0, clip of 1 or more"):
            learn_policy(good, **wrong)
