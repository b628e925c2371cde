"""The plan's properties, over every sampler, with stops, one task a batch and mixed, by length or not."""

import hashlib

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.support.every_sampler import DRAWN, some_stops, spec, window_of
from tests.support.more import examples
from weft.errors import WeftError
from weft.sampling import Plan
from weft.sampling.plan.weights import RULES


def make_lengths(sizes):
    return [np.random.default_rng(i).integers(1, 129, n) for i, n in enumerate(sizes)]


def make(sizes=(40, 7, 1), sampler="uniform", seed=1, steps=200, batch_size=8, **more):
    return Plan(sizes, sampler, seed, steps, batch_size, lengths=make_lengths(sizes), **more)


@st.composite
def arguments(draw, max_steps=200):
    sizes = draw(st.lists(st.integers(1, 150), min_size=1, max_size=6))
    steps = draw(st.integers(1, max_steps))
    mixed, grouped = draw(st.booleans()), draw(st.booleans())
    return {
        "sizes": sizes,
        "sampler": spec(draw(st.sampled_from(DRAWN)), len(sizes)),
        "seed": draw(st.integers(0, 2**32)),
        "steps": steps,
        "batch_size": draw(st.integers(1, 17)),
        "mixed": mixed,
        "group_by_length": grouped,
        "loss": draw(st.sampled_from(RULES)),
        "stops": draw(some_stops(len(sizes), steps, window_of(mixed, grouped))),
    }


def all_steps(plan):
    return [plan.step(k) for k in range(plan.steps)]


def equal(a, b):
    fields = ("task", "index", "weight")
    return a.real == b.real and all((getattr(a, f) == getattr(b, f)).all() for f in fields)


def real_examples(steps, task):
    """The indices that a task is given, in time order."""
    return np.concatenate([s.index[: s.real][s.task[: s.real] == task] for s in steps])


over_plans = settings(deadline=None, max_examples=examples(50))


@over_plans
@given(arguments(max_steps=2500), st.data())
def test_random_access_equals_sequential(given_arguments, data):
    plan = make(**given_arguments)
    numbers = data.draw(st.lists(st.integers(0, plan.steps - 1), min_size=1, max_size=12))
    at_random = [plan.step(k) for k in numbers]
    another = make(**given_arguments)
    in_order = {k: another.step(k) for k in range(max(numbers) + 1)}
    for k, step in zip(numbers, at_random, strict=True):
        assert step.number == k
        assert equal(step, in_order[k])
        assert equal(step, make(**given_arguments).step(k))


@over_plans
@given(arguments())
def test_every_example_comes_once_an_epoch(given_arguments):
    plan = make(**given_arguments)
    steps = all_steps(plan)
    spans = plan.sampler.spans(plan.sizes)
    assume(not plan.sampler.replacement)
    for task, (n, span) in enumerate(zip(plan.sizes, spans, strict=True)):
        examples = real_examples(steps, task)
        least, most = span // n, -(-span // n)  # once; of a stretched task, as often as the span is longer
        assert (least, most) == (1, 1) or plan.sampler.name == "stretched"
        for first in range(0, len(examples), span):
            times = np.bincount(examples[first : first + span], minlength=n)
            assert len(times) == n
            assert times.max() <= most
            assert times.min() >= least or first + span > len(examples)


@over_plans
@given(arguments())
def test_a_step_has_fixed_shapes_and_weights_by_the_rule(given_arguments):
    plan = make(**given_arguments)
    for step in all_steps(plan):
        assert step.task.shape == step.index.shape == step.weight.shape == (plan.batch_size,)
        assert (step.task.dtype, step.index.dtype, step.weight.dtype) == (np.int64, np.int64, np.float32)
        assert 1 <= step.real <= plan.batch_size
        assert (step.weight[step.real :] == 0).all()
        task, weight = step.task[: step.real], step.weight[: step.real]
        present, count = np.unique(task, return_counts=True)
        if plan.loss == "sum":
            assert (weight == 1).all()
        else:
            assert weight.sum() == pytest.approx(1, abs=1e-5)
        if plan.loss == "example_mean":
            assert weight == pytest.approx(1 / step.real)
        if plan.loss == "task_mean":
            for i, n in zip(present, count, strict=True):
                assert weight[task == i] == pytest.approx(1 / (n * len(present)))


@over_plans
@given(arguments())
def test_one_task_a_batch_or_full_mixed_batches(given_arguments):
    plan = make(**given_arguments)
    drawn = [0] * len(plan.sizes)
    spans = plan.sampler.spans(plan.sizes)
    for step in all_steps(plan):
        if plan.mixed or plan.sampler.replacement:
            assert step.real == plan.batch_size
            assert plan.mixed or len(set(step.task)) == 1
            continue
        (task,) = set(step.task)
        # the last batch of an epoch is short, and only that; filler repeats the batch's own examples
        place = drawn[task] % -(-spans[task] // plan.batch_size)
        assert step.real == min(plan.batch_size, spans[task] - place * plan.batch_size)
        assert len(set(step.index[: step.real])) == step.real or spans[task] > plan.sizes[task]
        assert set(step.index) == set(step.index[: step.real])
        drawn[task] += 1


@over_plans
@given(arguments())
def test_the_summary_counts_what_the_steps_hold(given_arguments):
    plan = make(**given_arguments)
    steps = all_steps(plan)
    summary = make(**given_arguments).summary()
    assert sum(row.share for row in summary) == pytest.approx(1)
    assert sum(row.drawn for row in summary) == plan.steps * (plan.batch_size if plan.mixed else 1)
    for task, row in enumerate(summary):
        seen = len(real_examples(steps, task))
        assert row.size == plan.sizes[task]
        assert row.examples == seen
        assert row.epochs == pytest.approx(seen / row.size)
        assert row.drawn == (seen if plan.mixed else sum(step.task[0] == task for step in steps))


@over_plans
@given(arguments())
def test_equal_arguments_give_an_equal_plan_and_more_steps_only_go_on(given_arguments):
    first = all_steps(make(**given_arguments))
    # `annealed` goes by how much of the run is done
    more = 0 if "annealed" in str(given_arguments["sampler"]) else 100
    longer = make(**given_arguments | {"steps": given_arguments["steps"] + more})
    assert all(equal(a, longer.step(k)) for k, a in enumerate(first))


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("group_by_length", [False, True])
def test_another_seed_gives_another_plan(mixed, group_by_length):
    a, b = (make([400, 70], seed=s, mixed=mixed, group_by_length=group_by_length) for s in (1, 2))
    assert not any((x.index == y.index).all() for x, y in zip(all_steps(a), all_steps(b), strict=True))


@pytest.mark.parametrize("mixed", [False, True])
def test_sizes_of_one_to_a_million_over_a_million_steps(mixed):
    sizes = [1, 1_000_000, 33]
    plan = Plan(sizes, "proportional", 1, 1_000_000, 32, mixed)
    step = plan.step(999_999)
    assert (step.index < np.array(sizes)[step.task]).all()
    draws = plan.steps * (32 if mixed else 1)
    for row in plan.summary():
        assert abs(row.drawn - draws * row.share) < 4 * np.sqrt(draws * row.share) + 4
    in_order = Plan(sizes, "proportional", 1, 1_000_000, 32, mixed)
    for k in range(999_000, 1_000_000):
        last = in_order.step(k)
    assert equal(step, last)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("group_by_length", [False, True])
@pytest.mark.parametrize("sampler", DRAWN)
def test_sixty_four_tasks_have_their_shares(sampler, mixed, group_by_length):
    """The bound is five standard deviations, of a Poisson count at the smallest shares."""
    sizes = np.geomspace(1, 20_000, 64).astype(int).tolist()
    stops = [(1280, 5), (3200, 60), (3200, 2)]
    sampler = spec(sampler, 64)
    plan = make(
        sizes, sampler, stops=stops, steps=6400, batch_size=8, mixed=mixed, group_by_length=group_by_length
    )
    draws = 6400 * (8 if mixed else 1)
    for row in plan.summary():
        assert abs(row.drawn - draws * row.share) < 5 * np.sqrt(draws * row.share) + 5
    for task in plan.step(6399).task:
        assert 0 <= task < 64


@pytest.mark.parametrize("mixed", [False, True])
def test_round_robin_takes_turns(mixed):
    plan = make(sampler="round_robin", mixed=mixed)
    tasks = np.concatenate([s.task if mixed else s.task[:1] for s in all_steps(plan)])
    assert (tasks == np.arange(len(tasks)) % 3).all()


@pytest.mark.parametrize("mixed", [False, True])
def test_one_task_of_one_example(mixed):
    for step in all_steps(make(sizes=[1], batch_size=3, steps=5, mixed=mixed)):
        assert step.task.tolist() == step.index.tolist() == [0, 0, 0]
        assert step.real == (3 if mixed else 1)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("sizes", [[5000], [5000, 3000, 700], [40, 7, 1]])
def test_grouping_by_length_saves_padding(mixed, sizes):
    waste = [
        make(sizes, steps=640, batch_size=16, mixed=mixed, group_by_length=grouped).padding_waste()
        for grouped in (False, True)
    ]
    assert waste[1] < waste[0]
    if min(sizes) >= 700:
        assert waste[0] > 0.4
        assert waste[1] < 0.1


@pytest.mark.parametrize("mixed", [False, True])
def test_grouping_draws_the_same_tasks_and_windows(mixed):
    plain, grouped = (
        all_steps(make([3000, 900], steps=640, mixed=mixed, group_by_length=grouped))
        for grouped in (False, True)
    )
    if not mixed:
        assert all((a.task == b.task).all() for a, b in zip(plain, grouped, strict=True))
    for task in range(2):
        # a window: what the task is given in 64 steps, or 64 of its batches
        a, b = (real_examples(s[:64] if mixed else s, task)[:512] for s in (plain, grouped))
        assert sorted(a) == sorted(b)
        assert a.tolist() != b.tolist()


def test_padding_waste_counts_filler():
    plan = Plan([3], "uniform", 1, 5, 4, lengths=[[2, 2, 4]])
    assert plan.padding_waste() == pytest.approx(1 - 8 / 16)


def test_steps_may_be_changed_by_their_receiver():
    plan = make(mixed=True)
    plan.step(3).index[:] = -1
    plan.step(3).task[:] = -1
    assert equal(plan.step(3), make(mixed=True).step(3))


def test_the_fingerprint_tells_plans_apart():
    base = {"sizes": [40, 7], "sampler": "uniform", "seed": 1, "steps": 200, "batch_size": 8}
    lengths = make_lengths([40, 7])
    other = [lengths[0], lengths[1] + 1]
    changes = [
        {},
        {"sizes": [40, 8]},
        {"sizes": [7, 40]},
        {"sampler": "round_robin"},
        {"seed": 2},
        {"steps": 201},
        {"batch_size": 9},
        {"mixed": True},
        {"loss": "sum"},
        {"lengths": lengths},
        {"lengths": other},
        {"lengths": lengths, "group_by_length": True},
    ]
    prints = [Plan(**base | change).fingerprint() for change in changes]
    assert len(set(prints)) == len(changes)
    assert all(len(p) == 64 for p in prints)
    assert Plan(**base, names=["a", "b"]).fingerprint() == prints[0]
    assert Plan(**base | {"sampler": {"use": "uniform"}}).fingerprint() == prints[0]


def test_the_order_is_that_of_the_version():
    """Where this fails, runs can no longer be resumed: raise `VERSION`, then renew the hash."""
    digest = hashlib.sha256()
    for mixed in (False, True):
        for grouped in (False, True):
            for step in all_steps(make(steps=100, mixed=mixed, group_by_length=grouped)):
                digest.update(step.task.astype("<i8").tobytes() + step.index.astype("<i8").tobytes())
    assert digest.hexdigest()[:16] == "f4f27582d196e917"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"sizes": []}, "at least one task; found none"),
        ({"sizes": [4, 0]}, "task '1' needs at least one training example; found 0"),
        (
            {"sizes": [4, 0], "names": ["cola", "rte"]},
            "task 'rte' needs at least one training example; found 0",
        ),
        ({"names": ["cola"]}, "expected one per task, 2; found 1"),
        ({"steps": 0}, "steps must be at least 1; found 0"),
        ({"batch_size": -1}, "batch_size must be at least 1; found -1"),
        ({"loss": "taskmean"}, "loss 'taskmean' does not exist; did you mean 'task_mean'?"),
        ({"sampler": "unform"}, "did you mean 'uniform'?"),
        ({"group_by_length": True}, "needs the token lengths"),
        ({"lengths": [[1, 2]]}, "expected one array per task, 2; found 1"),
    ],
)
def test_wrong_arguments_are_explained(change, text):
    base = {"sizes": [4, 3], "sampler": "uniform", "seed": 1, "steps": 10, "batch_size": 2}
    with pytest.raises(WeftError) as error:
        Plan(**base | change)
    assert text in str(error.value)


@pytest.mark.parametrize("number", [-1, 200])
def test_a_step_outside_the_plan_is_refused(number):
    with pytest.raises(WeftError, match=f"step {number} is outside the plan, which has steps 0 to 199"):
        make().step(number)


def test_padding_needs_lengths():
    with pytest.raises(WeftError, match="found none"):
        Plan([3], "uniform", 1, 5, 4).padding_waste()
