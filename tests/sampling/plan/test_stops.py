"""Tasks that are no longer sampled from some step on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.every_sampler import DRAWN, policy, some_stops, spec, window_of
from tests.support.more import examples
from weft.errors import WeftError
from weft.sampling import Plan

SIZES = [40, 7, 1, 90]


def make(sampler="uniform", stops=(), steps=400, batch_size=4, sizes=SIZES, **more):
    lengths = [np.random.default_rng(i).integers(1, 129, n) for i, n in enumerate(sizes)]
    return Plan(sizes, sampler, 3, steps, batch_size, lengths=lengths, stops=stops, **more)


def equal(a, b):
    return a.real == b.real and (a.task == b.task).all() and (a.index == b.index).all()


@settings(max_examples=examples(40))
@given(st.sampled_from(DRAWN), st.booleans(), st.booleans(), st.data())
def test_a_stop_changes_nothing_before_it_and_the_task_nowhere_after(label, mixed, grouped, data):
    more = {"sampler": spec(label, 4), "mixed": mixed, "group_by_length": grouped}
    stops = sorted(data.draw(some_stops(4, 400, window_of(mixed, grouped))))
    plan = make(**more)
    for count in range(len(stops) + 1):  # one stop after the other, as a run decides on them
        stopped = plan.with_stops(stops[:count])
        since = stops[count - 1][0] if count else 0
        for number in range(max(0, since - 70), min(since + 70, 400)):
            step = stopped.step(number)
            assert number >= since or equal(step, plan.step(number))
            gone = {task for first, task in stops[:count] if number >= first}
            assert not gone & set(step.task)
            assert not stopped.share_at(number)[list(gone)].any()
        plan = stopped
    assert equal(plan.step(399), make(stops=stops, **more).step(399))  # random access


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("sampler", ["round_robin", "stretched"])
def test_tasks_that_take_turns_keep_their_order(sampler, mixed):
    stops = [(9, 1), (20, 3)]
    plan = make(sampler, stops, steps=40, batch_size=3, mixed=mixed)
    turns, found = [0, 1, 2, 3], []
    for number in range(40):
        turns = [task for task in turns if all(task != t or number < first for first, t in stops)]
        for _ in range(3 if mixed else 1):
            found.append(turns[0])
            turns = turns[1:] + turns[:1]
    tasks = [t for number in range(40) for t in plan.step(number).task[: 3 if mixed else 1]]
    assert tasks == found


@pytest.mark.parametrize("mixed", [False, True])
def test_examples_go_on_from_where_they_were(mixed):
    """Whatever a stop does to the turns, a task's examples come in the same order."""
    plain, stopped = make(mixed=mixed), make(mixed=mixed, stops=[(130, 0)])
    for task in range(4):
        streams = []
        for plan in (plain, stopped):
            steps = [plan.step(number) for number in range(400)]
            streams.append(np.concatenate([s.index[: s.real][s.task[: s.real] == task] for s in steps]))
        both = min(map(len, streams))
        assert both > 50
        assert (streams[0][:both] == streams[1][:both]).all()
        assert (len(streams[1]) < len(streams[0])) == (task == 0)


@pytest.mark.parametrize("label", [label for label in DRAWN if label != "counterfactual"])
def test_the_others_share_what_it_leaves(label):
    """Five standard deviations at the most, after the stop alone."""
    steps, sizes = 40_000, [1, 1_000_000, 500, 40_000]
    plan = make(spec(label, 4), [(10_000, 1)], steps=steps, sizes=sizes)
    before, drawn = make(spec(label, 4), (), 10_000, sizes=sizes), plan.summary()
    shares = [s for s in plan.shares() if s.first >= 10_000]
    expected = np.sum([(s.stop - s.first) * s.share for s in shares], axis=0)
    assert expected.sum() == pytest.approx(30_000)
    assert expected[1] == 0
    if "annealed" in label:  # there, the first steps of a shorter run are others
        return
    for task in range(4):
        found = drawn[task].drawn - before.summary()[task].drawn
        assert abs(found - expected[task]) <= 5 * np.sqrt(expected[task]) + 1 * (expected[task] > 0)


def test_shares_over_time():
    plan = make("proportional", [(100, 3), (300, 0)], sizes=[10, 20, 30, 40])
    found = [(s.first, s.stop, s.share.tolist()) for s in plan.shares()]
    assert [(first, stop) for first, stop, _ in found] == [(0, 100), (100, 300), (300, 400)]
    shares = [[0.1, 0.2, 0.3, 0.4], [1 / 6, 2 / 6, 3 / 6, 0], [0, 0.4, 0.6, 0]]
    for (first, stop, share), expected in zip(found, shares, strict=True):
        assert share == pytest.approx(expected)
        assert plan.share_at(first).tolist() == plan.share_at(stop - 1).tolist() == share
    expected = (np.array(shares) * [[0.25], [0.5], [0.25]]).sum(0)
    assert [row.share for row in plan.summary()] == pytest.approx(expected)
    assert plan.epoch().task == "2"  # the largest that is drawn at the end
    with pytest.raises(WeftError, match="step 400 is outside the plan"):
        plan.share_at(400)


@given(st.integers(0, 1000))
def test_a_stop_waits_for_the_next_window_where_draws_were_brought_together(done):
    for mixed, grouped in ((False, False), (False, True), (True, False)):
        assert make(mixed=mixed, group_by_length=grouped).stop_at(done) == done
    assert make(mixed=True, group_by_length=True).stop_at(done) == -(-done // 64) * 64


def test_stops_are_no_part_of_the_fingerprint_and_a_plan_stays_as_it_is():
    plan = make()
    stopped = plan.with_stops([(30, 1), (20, 0), (50, 1)])
    assert (plan.stops, stopped.stops) == ((), ((20, 0), (30, 1)))
    assert plan.fingerprint() == stopped.fingerprint()
    assert equal(plan.step(60), make().step(60))
    again = stopped.with_stops([])
    assert all(equal(again.step(number), plan.step(number)) for number in range(400))


def test_a_stop_after_the_end_changes_nothing():
    plan = make(stops=[(400, 0), (900, 1), (400, 2), (400, 3)])
    assert all(equal(plan.step(number), make().step(number)) for number in range(400))


def test_every_task_but_one_from_the_first_step_on():
    plan = make(stops=[(0, 0), (0, 1), (0, 3)])
    assert {task for number in range(400) for task in plan.step(number).task} == {2}


@pytest.mark.parametrize(
    ("more", "stops", "text"),
    [
        ({}, [(9, t) for t in range(4)], "from step 9 on every task has stopped and nothing remains"),
        ({}, [(9, 4)], "there is no task 4; the plan has tasks 0 to 3"),
        ({}, [(-1, 2)], "task 'c' stops at step -1; expected at least 0"),
        (
            {"mixed": True, "group_by_length": True},
            [(65, 2)],
            "task 'c' stops at step 65; expected a multiple of 64, as plan.stop_at returns",
        ),
        (
            {"sampler": {"use": "counterfactual", "policy": {"a": 0.5, "b": 0.5, "c": 0, "d": 0}}},
            [(9, 0), (8, 1)],
            "from step 9 on the sampler gives all remaining tasks probability 0: 'c', 'd'",
        ),
    ],
)
def test_wrong_stops_are_explained(more, stops, text):
    with pytest.raises(WeftError) as error:
        make(stops=stops, names=list("abcd"), **more)
    assert text in str(error.value)


def test_the_policy_of_these_tests_is_one():
    assert list(policy(4).values()) == pytest.approx([4 / 7, 2 / 7, 1 / 7, 0])
