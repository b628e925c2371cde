import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.sampling.plan.choice import Chance, Cycle
from weft.utils.counter_rng import draw_key, half_bits

KEY = draw_key(1, "test")
weights = st.lists(st.integers(0, 10**6), min_size=1, max_size=64).filter(any)


@given(weights, st.integers(0, 10**9), st.integers(0, 300))
def test_counts_are_the_tasks_counted(weight, first, count):
    chance = Chance(np.array(weight) / sum(weight))
    tasks = chance.tasks(KEY, first, first + count)
    assert len(tasks) == count
    assert (chance.counts(KEY, first, first + count) == np.bincount(tasks, minlength=len(weight))).all()


@given(weights)
def test_a_task_is_chosen_by_the_interval_its_draw_falls_in(weight):
    p = np.array(weight) / sum(weight)
    tasks = Chance(p).tasks(KEY, 0, 200)
    u = half_bits(KEY, 0, 200) / 2**32
    upper = np.cumsum(p)[tasks]
    slack = len(p) / 2**32
    assert (u < upper + slack).all()
    assert (u >= upper - p[tasks] - slack).all()
    assert (p[tasks] > 0).all()


def test_shares_are_within_confidence_bounds():
    p, draws = np.array([0.5, 0.3, 0.15, 0.049, 0.001]), 1_000_000
    counts = Chance(p).counts(KEY, 0, draws)
    assert counts.sum() == draws
    assert (abs(counts - draws * p) < 4 * np.sqrt(draws * p * (1 - p))).all()


def test_the_least_probability_leaves_a_chance():
    chance = Chance([1e-30, 1 - 1e-30])
    assert chance._edges.tolist() == [1]  # one number in 2³²


def test_probability_zero_is_never_chosen():
    for p in ([0, 1], [1, 0], [0, 0.5, 0, 0.5, 0]):
        counts = Chance(p).counts(KEY, 0, 10_000)
        assert ((counts > 0) == (np.array(p) > 0)).all()


@pytest.mark.parametrize("p", [[0.5, 0.4], [1.5, -0.5], [float("nan"), 1.0], [[1.0]], []])
def test_what_is_no_distribution_is_refused(p):
    with pytest.raises(WeftError, match="sum to 1; found"):
        Chance(p)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.integers(0, 10**6), st.integers(0, 100))
def test_a_cycle_repeats(order, first, count):
    cycle = Cycle(order, tasks=5)
    tasks = cycle.tasks(KEY, first, first + count)
    assert tasks.tolist() == [order[c % len(order)] for c in range(first, first + count)]
    assert (cycle.counts(KEY, first, first + count) == np.bincount(tasks, minlength=5)).all()
    assert cycle.share.sum() == pytest.approx(1)


@given(weights, st.data())
def test_what_is_left_keeps_its_proportions(weight, data):
    p = np.array(weight) / sum(weight)
    gone = data.draw(st.lists(st.integers(0, len(p) - 1), max_size=5))
    left = np.where(np.isin(np.arange(len(p)), gone), 0, p)
    if left.any():
        assert Chance(p).without(gone, 17).share == pytest.approx(left / left.sum())
        assert not np.isin(Chance(p).without(gone, 17).tasks(KEY, 17, 200), gone).any()


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=9),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4)), max_size=3),
)
def test_a_cycle_goes_on_with_the_task_whose_turn_is_next(order, stops):
    cycle, waiting, draw = Cycle(order, tasks=5), list(order), 0  # waiting: a queue that the turns rotate
    for after, task in stops:
        for _ in range(after):
            assert cycle.tasks(KEY, draw, draw + 1).tolist() == waiting[:1]
            waiting, draw = waiting[1:] + waiting[:1], draw + 1
        if set(waiting) <= {task}:
            return
        waiting = [other for other in waiting if other != task]
        cycle = cycle.without([task], draw)
    tasks = cycle.tasks(KEY, draw, draw + 20)
    assert tasks.tolist() == [waiting[i % len(waiting)] for i in range(20)]
    assert (cycle.counts(KEY, draw + 3, draw + 20) == np.bincount(tasks[3:], minlength=5)).all()
    assert cycle.share == pytest.approx(np.bincount(waiting, minlength=5) / len(waiting))
