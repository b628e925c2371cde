"""Steps that choose among each task's next batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.every_sampler import some_stops
from tests.support.more import examples
from weft.errors import WeftError
from weft.sampling import Plan
from weft.sampling.plan.weights import example_weights


def make(sizes=(40, 7, 1), sampler="mt_uncertainty", steps=100, batch_size=4, **more):
    lengths = [np.random.default_rng(i).integers(1, 129, n) for i, n in enumerate(sizes)]
    return Plan(sizes, sampler, 3, steps, batch_size, lengths=lengths, **more)


few = settings(max_examples=examples(20))
some_sizes = st.lists(st.integers(1, 150), min_size=1, max_size=5)


def pairs(candidates):
    return list(zip(candidates.task.tolist(), candidates.index.tolist(), strict=True))


@few
@given(some_sizes, st.integers(1, 9), st.booleans(), st.data())
def test_every_task_that_runs_offers_the_batch_of_that_number(sizes, batch_size, grouped, data):
    """Task i's batch k is what it is given when tasks take turns, in step k·T + i."""
    tasks = len(sizes)
    stops = data.draw(some_stops(tasks, 60))
    turns = make(sizes, "round_robin", 60 * tasks, batch_size, group_by_length=grouped)
    plan = make(sizes, steps=60, batch_size=batch_size, group_by_length=grouped, stops=stops)
    for number in range(60):
        expected = []
        for task in range(tasks):
            if all(number < step for step, stopped in stops if stopped == task):
                step = turns.step(number * tasks + task)
                expected += [(task, index) for index in step.index[: step.real].tolist()]
        assert plan.candidates(number).number == number
        assert pairs(plan.candidates(number)) == expected


@few
@given(some_sizes, st.booleans(), st.lists(st.integers(0, 2999), min_size=1, max_size=8), st.data())
def test_random_access_equals_sequential(sizes, grouped, numbers, data):
    stops = data.draw(some_stops(len(sizes), 3000))
    more = {"steps": 3000, "batch_size": 8, "group_by_length": grouped, "stops": stops}
    at_random = [pairs(make(sizes, **more).candidates(number)) for number in numbers]
    plan = make(sizes, **more)
    for number in range(max(0, max(numbers) - 100), max(numbers) + 1):
        in_order = pairs(plan.candidates(number))
        assert all(number != k or in_order == found for k, found in zip(numbers, at_random, strict=True))


@few
@given(some_sizes, st.booleans(), st.integers(0, 300), st.data())
def test_a_stop_changes_nothing_for_the_others(sizes, grouped, done, data):
    plan = make(sizes, steps=301, group_by_length=grouped)
    assert plan.stop_at(done) == done
    stops = [(done, task) for _, task in data.draw(some_stops(len(sizes), 0))]
    stopped, gone = plan.with_stops(stops), {task for _, task in stops}
    for number in range(max(done - 5, 0), min(done + 20, 301)):
        left = [pair for pair in pairs(plan.candidates(number)) if number < done or pair[0] not in gone]
        assert pairs(stopped.candidates(number)) == left


@few
@given(some_sizes, st.integers(1, 9), st.booleans(), st.data())
def test_the_summary_counts_candidates(sizes, batch_size, grouped, data):
    stops = data.draw(some_stops(len(sizes), 60))
    plan = make(sizes, steps=60, batch_size=batch_size, group_by_length=grouped, stops=stops)
    offered = [plan.candidates(number) for number in range(60)]
    assert sum(row.share for row in plan.summary()) == pytest.approx(1)
    for task, row in enumerate(plan.summary()):
        index = np.concatenate([c.index[c.task == task] for c in offered])
        assert row.drawn == sum((c.task == task).any() for c in offered)
        assert row.examples == len(index)
        for first in range(0, len(index), row.size):  # once an epoch
            times = np.bincount(index[first : first + row.size], minlength=row.size)
            assert times.max() <= 1
            assert times.all() or first + row.size > len(index)
    assert plan.share_at(59) == pytest.approx(
        np.array([r.drawn == 60 for r in plan.summary()]) / len(set(offered[-1].task))
    )


def test_an_epoch_is_a_pass_of_the_largest_task():
    epoch = make(names=["a", "b", "c"]).epoch()
    assert (epoch.task, epoch.steps, epoch.exact) == ("a", 10.0, True)
    assert make(stops=[(7, 0)]).epoch().steps == 2.0


@given(some_sizes, st.integers(1, 9), st.sampled_from(["task_mean", "example_mean", "sum"]), st.data())
def test_chosen_candidates_are_a_step(sizes, batch_size, loss, data):
    plan = make(sizes, batch_size=batch_size, loss=loss)
    offered = plan.candidates(data.draw(st.integers(0, 99)))
    count = data.draw(st.integers(1, min(batch_size, len(offered.task))))
    places = data.draw(st.permutations(range(len(offered.task))))[:count]
    step = plan.chosen(offered, places)
    assert (step.number, step.real) == (offered.number, count)
    assert step.task.shape == step.index.shape == step.weight.shape == (batch_size,)
    filled = np.resize(places, batch_size)
    assert (step.task == offered.task[filled]).all()
    assert (step.index == offered.index[filled]).all()
    assert (step.weight[:count] == example_weights(offered.task[places], loss)).all()
    assert not step.weight[count:].any()


def test_padding_is_that_of_the_candidates():
    plan = Plan([2, 1], "mt_uncertainty", 1, 5, 2, lengths=[[3, 4], [8]])
    assert plan.padding_waste() == pytest.approx(1 - 15 / 24)
    sizes = (3000, 900)
    plain, grouped = (make(sizes, steps=500, batch_size=16, group_by_length=g) for g in (False, True))
    assert grouped.padding_waste() < plain.padding_waste()


def test_mixed_or_not_is_the_same():
    one, other = make(mixed=False), make(mixed=True)
    assert one.mixed
    assert one.fingerprint() == other.fingerprint()
    assert all(pairs(one.candidates(k)) == pairs(other.candidates(k)) for k in range(100))
    assert make(sampler={"use": "mt_uncertainty", "rule": "paper"}).fingerprint() != one.fingerprint()


def test_steps_and_candidates_are_not_taken_for_each_other():
    plan, plain = make(), make(sampler="uniform")
    assert (plan.chooses, plain.chooses) == (True, False)
    with pytest.raises(WeftError, match=r"use plan.candidates\(number"):
        plan.step(0)
    with pytest.raises(WeftError, match=r"sampler 'uniform' has no candidates; use plan\.step"):
        plain.candidates(0)
    with pytest.raises(WeftError, match="step 100 is outside the plan"):
        plan.candidates(100)
    for places in ([], [0, 0], [0, 1, 2, 3, 4], [[0]]):
        with pytest.raises(WeftError, match="a step has 1 to 4 different candidates; found the indices"):
            plan.chosen(plan.candidates(0), places)
