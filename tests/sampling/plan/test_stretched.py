"""Small tasks stretched to the largest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.sampling import Plan
from weft.sampling.plan.orders import Orders

some_sizes = st.lists(st.integers(1, 60), min_size=1, max_size=4)


def counts(plan, first, stop):
    """How often each example of each task comes in the steps first, …, stop − 1."""
    found = [np.zeros(n, int) for n in plan.sizes]
    for step in (plan.step(k) for k in range(first, stop)):
        for task, index in zip(step.task[: step.real], step.index[: step.real], strict=True):
            found[task][index] += 1
    return found


@given(some_sizes, st.integers(1, 9), st.booleans(), st.integers(0, 99))
def test_an_epoch_has_every_task_as_often_as_the_largest(sizes, batch_size, grouped, seed):
    lengths = [np.arange(1, n + 1) for n in sizes]
    more = {"lengths": lengths, "group_by_length": True} if grouped else {}
    steps = len(sizes) * -(-max(sizes) // batch_size)
    plan = Plan(sizes, "stretched", seed, 2 * steps, batch_size, **more)
    assert plan.epoch().steps == pytest.approx(steps)
    assert plan.epoch().exact
    for epoch in range(2):
        for n, times in zip(sizes, counts(plan, epoch * steps, (epoch + 1) * steps), strict=True):
            assert times.sum() == max(sizes)
            assert set(times) <= {max(sizes) // n, -(-max(sizes) // n)}
    assert [row.examples for row in plan.summary()] == [2 * max(sizes)] * len(sizes)


@given(st.lists(st.integers(1, 40), min_size=3, max_size=3), st.integers(1, 4), st.integers(0, 99))
def test_a_mixed_step_has_as_many_of_each_task(sizes, each, seed):
    plan = Plan(sizes, "stretched", seed, 50, 3 * each, mixed=True)
    for number in range(50):
        assert np.bincount(plan.step(number).task).tolist() == [each] * 3
    assert plan.epoch().steps == pytest.approx(max(sizes) / each)


def test_the_largest_task_is_as_without_stretching():
    sizes = [30, 7]
    plans = [Plan(sizes, sampler, 1, 40, 8) for sampler in ("stretched", "round_robin")]
    for number in range(0, 40, 2):
        one, other = (plan.step(number) for plan in plans)
        assert one.index.tolist() == other.index.tolist()


def test_round_robin_gives_small_tasks_less():
    plans = {name: Plan([800, 9], name, 1, 200, 8) for name in ("stretched", "round_robin")}
    assert [row.examples for row in plans["stretched"].summary()] == [800, 800]
    assert [row.examples for row in plans["round_robin"].summary()] == [800, 450]


def test_the_paper_s_three_tasks():
    plan = Plan([8544, 141506, 6040], "stretched", 1, 3 * 17689, 8, names=["sst", "quora", "sts"])
    assert (plan.epoch().task, plan.epoch().steps) == ("quora", pytest.approx(3 * 17689))
    assert [round(row.epochs, 2) for row in plan.summary()] == [16.56, 1.0, 23.43]


def test_an_epoch_by_chance_is_so_long_on_average():
    epoch = Plan([30, 10], "proportional", 1, 10, 4, mixed=True).epoch()
    assert (epoch.steps, epoch.exact) == (pytest.approx(10), False)
    assert Plan([30, 10], "uniform", 1, 10, 4).epoch().steps == pytest.approx(16)


def test_every_pass_has_an_order_of_its_own():
    orders = Orders(np.array([50, 200]), 1, np.array([200, 200]))
    first, second = (orders.examples(0, epoch, np.arange(200)).reshape(4, 50) for epoch in (0, 1))
    passes = [*first, *second]
    assert all(sorted(one) == list(range(50)) for one in passes)
    assert len({tuple(one) for one in passes}) == 8
