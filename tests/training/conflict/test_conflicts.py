import json
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.conflicting import gradients, gramian, worst
from tests.support.more import examples
from weft.errors import RunFailed, WeftError
from weft.training.conflict import CONFLICTS, LEFT_OUT, Conflict, build_conflict, conflict
from weft.training.conflict.pcgrad import PCGrad

pytest.importorskip("torchjd")

STATEFUL = ["nash_mtl", "grad_vac", {"use": "cr_mogm", "weighting": "grad_vac", "alpha": 0.7}]


@pytest.mark.parametrize("name", CONFLICTS)
def test_weights_are_finite_seeded_and_leave_the_generator_alone(name):
    for tasks, width in ((2, 9), (5, 9), (4, 2)):
        found = gramian(gradients(tasks, tasks, width))
        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        one, other = (build_conflict(name).merge(found, range(tasks), 8) for _ in range(2))
        assert torch.equal(torch.rand(3), expected)
        for kind in ("all", "some", "single"):
            weights = getattr(one, kind)
            assert weights.shape == (tasks,)
            assert weights.dtype == torch.float64
            assert torch.isfinite(weights).all()
            assert torch.equal(weights, getattr(other, kind))


@pytest.mark.parametrize("name", sorted(set(CONFLICTS) - {"random", "sum", "fair_grad", "nash_mtl"}))
def test_equal_orthogonal_gradients_merge_to_the_plain_one(name):
    """Nothing conflicts and no task is longer: every way but those with a scale of their own says 1/P."""
    merged = build_conflict(name).merge(7 * torch.eye(4, dtype=torch.float64), range(4), 1)
    # Frank and Wolfe's search ends near it; cagrad stretches the mean by 1 + c
    plain = 0.25 * (1.5 if name == "cagrad" else 1)
    assert torch.allclose(merged.all, torch.full((4,), plain, dtype=torch.float64), atol=1e-4)


@given(seed=st.integers(0, 10**6), tasks=st.integers(2, 8), width=st.integers(1, 12))
@pytest.mark.parametrize("spec", ["upgrad", "dual_proj"])
def test_promise_holds_for_any_gradients(spec, seed, tasks, width):
    """Fewer directions than tasks, and lengths orders of magnitude apart, among them."""
    way = build_conflict(spec)
    assert way.promises
    rows = gradients(seed, tasks, width, spread=2.0)
    assert worst(rows, way.merge(gramian(rows), range(tasks), seed).all) > -1e-8


@settings(max_examples=examples(15))
@given(seed=st.integers(0, 10**6), tasks=st.integers(2, 6))
def test_cagrad_promises_from_one_on(seed, tasks):
    way = build_conflict({"use": "cagrad", "c": 1.2})
    assert way.promises
    assert not build_conflict("cagrad").promises
    rows = gradients(seed, tasks, 10)
    assert worst(rows, way.merge(gramian(rows), range(tasks), seed).all) > -1e-5


@settings(max_examples=examples(20))
@given(seed=st.integers(0, 10**6))
def test_mgda_of_two_tasks_is_the_shortest_combination(seed):
    rows = gradients(seed, 2, 6)
    found = build_conflict("mgda").merge(gramian(rows), range(2), 0).all
    assert worst(rows, found) > -1e-9
    others = torch.linspace(0, 1, 101, dtype=torch.float64)[:, None]
    assert (found @ rows).norm() <= (others * rows[0] + (1 - others) * rows[1]).norm(dim=1).min() + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_bargains_are_at_their_equations(seed):
    """G·w = 1/w and G·w = w^(−1/α): every product is positive where they are solved."""
    rows = gradients(seed, 3, 12, spread=0.3)
    found = gramian(rows)
    fair = build_conflict({"use": "fair_grad", "alpha": 2.0}).merge(found, range(3), 0).all
    assert torch.allclose(found @ fair, fair**-0.5, rtol=1e-4)
    nash = build_conflict({"use": "nash_mtl", "max_norm": 0}).merge(found, range(3), 0).all
    products = found @ nash * nash  # equal for all tasks at the solution
    assert products.min() > 0.8 * products.max()
    assert worst(rows, nash) > 0


def test_no_promise_is_made_in_vain():
    """The plain mean and pcgrad of many tasks do break it: the test above could fail."""
    broken = {"mean": 0, "pcgrad": 0}
    for seed in range(40):
        rows = gradients(seed, 6, 4)
        for name in broken:
            broken[name] += worst(rows, build_conflict(name).merge(gramian(rows), range(6), seed).all) < -1e-3
            assert not build_conflict(name).promises
    assert min(broken.values()) > 3


@pytest.mark.parametrize("spec", ["upgrad", "mgda", "cagrad", "imtl_g", "aligned_mtl", "grad_vac"])
def test_small_gradients_are_weighed_as_large_ones(spec):
    """torchjd's constants are absolute: late in training they would make every gradient count as zero."""
    found = gramian(gradients(3, 4, 9))
    large, small = (build_conflict(spec).merge(found * scale, range(4), 2).all for scale in (1.0, 1e-12))
    assert torch.allclose(large, small, rtol=1e-5, atol=1e-7)


def test_nash_mtl_of_short_gradients_is_the_same_bargain():
    """w of G·s² is that of G over s: the merged gradient has one length, and no solver gives up."""
    found = gramian(gradients(3, 4, 9))
    large, small = (
        build_conflict({"use": "nash_mtl", "max_norm": 0}).merge(found * s**2, range(4), 2).all
        for s in (1.0, 1e-7)
    )
    assert not torch.allclose(large, large.mean().expand(4), rtol=0.05)
    assert torch.allclose(large, small * 1e-7, rtol=1e-4)


@pytest.mark.parametrize("c", [0.5, 1.0])
def test_cagrad_of_a_learned_task_trains_on(c):
    """A gradient that is nearly nothing must not set every weight to zero."""
    rows = gradients(3, 4, 9)
    rows[1] *= 1e-5
    assert build_conflict({"use": "cagrad", "c": c}).merge(gramian(rows), range(4), 2).all.abs().max() > 1e-3


@pytest.mark.parametrize("name", sorted(set(CONFLICTS) - {"random", "cr_mogm", "pcgrad_tseng", "grad_vac"}))
def test_a_task_without_a_gradient_changes_nothing_for_the_others(name):
    """Not for ways that draw an order of all the tasks, or numbers for them."""
    rows = gradients(1, 3, 9)
    padded = torch.cat([rows[:1], torch.zeros(1, 9, dtype=torch.float64), rows[1:]])

    def weights(names, gradients):
        order = {"order": names} if name == "pcgrad" else {}
        way = build_conflict({"use": name, **order}).of(names)
        return way.merge(gramian(gradients), range(len(names)), 3).all

    scale = 1.0 if name == "sum" else 3 / 4
    found, alone = weights(["a", "b", "c", "d"], padded), weights(["a", "c", "d"], rows)
    assert torch.allclose(found[[0, 2, 3]], alone * scale, rtol=1e-3, atol=1e-6)
    nothing = weights(["a", "b", "c"], torch.zeros(3, 2, dtype=torch.float64))
    assert torch.allclose(nothing, torch.full_like(nothing, 1.0 if name == "sum" else 1 / 3))


@pytest.mark.parametrize("spec", STATEFUL, ids=str)
def test_what_is_remembered_is_by_task_and_survives_json(spec):
    """Steps have any of the tasks; a resumed way says the same to the bit."""
    names = ["a", "b", "c", "d"]
    steps = [[0, 1, 2], [1, 3], [0, 1, 2, 3], [0, 3], [1, 2, 3]]
    through, first = (build_conflict(spec).of(names) for _ in range(2))
    assert first.resumable
    resumed: Conflict | None = None
    for number, tasks in enumerate(steps):
        found = gramian(gradients(number, len(tasks), 8))
        expected = through.merge(found, tasks, number)
        if number == 3:
            resumed = build_conflict(spec).of(names)
            resumed.load(json.loads(json.dumps(first.state())))
        merged = (resumed or first).merge(found, tasks, number)
        assert torch.equal(merged.all, expected.all), number
        assert torch.equal(merged.some, expected.some)
    # and it matters: one that remembers nothing says something else
    fresh = build_conflict(spec).of(names).merge(found, steps[-1], len(steps) - 1)
    assert not torch.equal(fresh.all, expected.all)
    # an absent task's part stays as it was, and `of` begins anew
    before = first.state()
    first.merge(gramian(gradients(9, 2, 8)), [0, 1], 9)
    told, was = json.dumps(first.state()), json.dumps(before)
    assert told != was
    assert build_conflict(spec).of(names).state() == first.of(names).state() != first.state()


def test_cr_mogm_smooths_by_task():
    way = build_conflict({"use": "cr_mogm", "weighting": "mgda", "alpha": 0.75}).of(["a", "b", "c"])
    inner = build_conflict("mgda")
    first, second = (gramian(gradients(s, 2, 6)) for s in (1, 2))
    one, two = inner.merge(first, [0, 1], 0).all, inner.merge(second, [0, 2], 0).all
    assert torch.allclose(way.merge(first, [0, 1], 0).all, one)
    found = way.merge(second, [0, 2], 0).all
    assert torch.allclose(found, torch.stack([0.75 * one[0] + 0.25 * two[0], two[1]]))


def test_settings_say_it_again():
    for name in CONFLICTS:
        way = build_conflict(name)
        said = way.settings()
        assert said["use"] == name
        assert build_conflict(json.loads(json.dumps(said))).settings() == said
        for key, setting in type(way).model_fields.items():
            assert setting.description, (name, key)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("pcgard", "conflict 'pcgard' does not exist; did you mean 'pcgrad'?"),
        ("modo", "conflict 'modo' is not offered: it needs two independent batches"),
        ({"reduction": "sum"}, "lacks the key 'use'"),
        (3, "expected a name or settings with 'use'; found 3"),
        ({"use": "pcgrad", "reduction": "max"}, "reduction: expected 'mean' or 'sum'; found 'max'"),
        ({"use": "pcgrad", "order": ["a", "a"]}, "order: names 'a' twice"),
        ({"use": "cagrad", "c": -1}, "c: expected greater than or equal to 0"),
        ({"use": "cr_mogm", "weighting": "cr_mogm"}, "cr_mogm cannot smooth itself"),
        ({"use": "cr_mogm", "weighting": "upgard"}, "did you mean 'upgrad'?"),
    ],
)
def test_mistakes(spec, message):
    with pytest.raises(WeftError) as told:
        build_conflict(spec)
    assert message in str(told.value)


def test_what_is_left_out_is_torchjds_and_has_no_entry():
    assert not set(LEFT_OUT) & set(CONFLICTS)


def test_a_missing_package_is_named_with_what_to_type(monkeypatch):
    monkeypatch.setattr(conflict, "find_spec", lambda name: None if name == "quadprog" else object())
    with pytest.raises(WeftError, match="conflict 'upgrad' needs quadprog; type: pip install quadprog"):
        build_conflict("upgrad")
    with pytest.raises(WeftError, match="needs quadprog"):
        build_conflict({"use": "cr_mogm", "weighting": "dual_proj"})
    assert isinstance(build_conflict("pcgrad"), PCGrad)


def test_a_solver_that_fails_ends_the_run_with_a_reason(monkeypatch):
    way = build_conflict("mgda")

    def fails(*_):
        raise ValueError("no solution")

    monkeypatch.setattr(type(way), "weights", fails)
    with pytest.raises(RunFailed, match="'mgda' found no weights for the gradients of a step: no solution"):
        way.merge(torch.eye(2, dtype=torch.float64), [0, 1], 0)


def test_settings_are_checked_without_torch():
    code = (
        "import sys; from weft.training.conflict import CONFLICTS, build_conflict\n"
        "for name in CONFLICTS: build_conflict(name)\n"
        "assert not {'torch', 'numpy', 'torchjd', 'cvxpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
