"""BERTAdam, against its equations number by number."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from tests.support.tiny import TASKS, build, scramble
from weft.errors import WeftError
from weft.model.ownership import owned
from weft.training.optim.bert_adam import BertAdam, schedule_factor
from weft.training.optim.owners import OwnerOptimizers
from weft.training.run.checkpoint import load_checkpoint, save_checkpoint

EVERYONE = range(len(TASKS))


class Literal:
    """One number under BERTAdam, as it is printed: no vector, no shortcut."""

    def __init__(self, value, lr, decay, steps, warmup):
        self.value, self.lr, self.decay, self.steps, self.warmup = value, lr, decay, steps, warmup
        self.m = self.v = 0.0
        self.step = 0

    def update(self, gradient):
        self.m = 0.9 * self.m + 0.1 * gradient
        self.v = 0.999 * self.v + 0.001 * gradient * gradient
        update = self.m / (math.sqrt(self.v) + 1e-6)
        update += self.decay * self.value
        x = self.step / self.steps
        factor = x / self.warmup if x < self.warmup else 1 - x
        self.value -= self.lr * factor * update
        self.step += 1


def numbers(count, scale):
    return st.lists(st.floats(-scale, scale, allow_subnormal=False), min_size=count, max_size=count)


@given(
    numbers(3, 10),
    st.lists(st.one_of(st.none(), numbers(3, 100)), min_size=1, max_size=12),
    st.sampled_from([0.0, 0.01, 0.5]),
    st.sampled_from([0.0, 0.1, 0.5]),
)
def test_the_equations(start, gradients, decay, warmup):
    """Where there is no gradient nothing happens, and the schedule waits."""
    parameter = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    optimizer = BertAdam([parameter], lr=0.03, weight_decay=decay, steps=12, warmup=warmup)
    literal = [Literal(value, 0.03, decay, 12, warmup) for value in start]
    for gradient in gradients:
        parameter.grad = None if gradient is None else torch.tensor(gradient, dtype=torch.float64)
        optimizer.step()
        if gradient is not None:
            for number, g in zip(literal, gradient, strict=True):
                number.update(g)
        assert parameter.tolist() == pytest.approx([n.value for n in literal], rel=1e-10, abs=1e-12)


@given(st.floats(0, 1.5), st.floats(0, 0.99))
def test_the_factor(x, warmup):
    line, flat = schedule_factor(x, warmup, "linear"), schedule_factor(x, warmup, "constant")
    assert 0 <= line <= flat <= 1
    if x < warmup:
        assert line == flat == x / warmup
    else:
        assert (line, flat) == (max(0.0, 1 - x), 1.0)


def test_the_rate_drops_where_the_warm_up_ends():
    assert [schedule_factor(x, 0.1, "linear") for x in (0.0, 0.05, 0.1)] == [0.0, 0.5, 0.9]


def test_without_steps_the_factor_is_one():
    parameter = torch.nn.Parameter(torch.ones(1))
    parameter.grad = torch.ones(1)
    optimizer = BertAdam([parameter], lr=0.1, weight_decay=0.0)
    optimizer.step()
    assert parameter.item() == pytest.approx(1 - 0.1 * 0.1 / (math.sqrt(0.001) + 1e-6))


def test_other_schedules_are_refused():
    with pytest.raises(WeftError, match=r"bert_adam has no schedule 'cosine'; expected linear or constant"):
        BertAdam([torch.nn.Parameter(torch.ones(1))], schedule="cosine")


def made(steps=9, method="lora", dtype=torch.float64):
    model = scramble(build("bert", method)).to(dtype)
    more = {"optimizer": "bert_adam", "steps": steps, "warmup": 0.3}
    return model, OwnerOptimizers(model, lr=0.02, weight_decay=0.1, **more)


def fill(model, step, tasks):
    """Gradients of a step that has examples of these tasks: of the others' slots they are zero."""
    generator = torch.Generator().manual_seed(step)
    absent = {f"task:{t.name}" for n, t in enumerate(TASKS) if n not in tasks}
    for item in owned(model):
        if item.trains:
            gradient = item.parameter.grad if item.slot is None else item.parameter.grad[item.slot]
            gradient.copy_(torch.randn(gradient.shape, generator=generator, dtype=torch.float64))
            if item.owner in absent:
                gradient.zero_()


def watched(model):
    """A few numbers of every owner, one of each role: how to read one, its gradient, and its literal self."""
    found = []
    for item in owned(model):
        if item.trains and not any(i.owner == item.owner and i.role == item.role for i, *_ in found):
            decay = 0.1 if item.role == "weight" else 0.0
            literal = Literal(float(item.data.flatten()[0]), 0.02, decay, 9, 0.3)
            found.append((item, literal))
    return found


STEPS = [[1, 2], [0], [0, 2], [1], [2], [1, 2], [0, 1], [2]]  # task 3 has no example at all


@pytest.mark.parametrize("absent", ["still", "drift", "all"])
def test_owners_by_their_own_steps(absent):
    """`drift`: by momentum and decay from an owner's first example on; `all`: from the first step on."""
    model, optimizers = made()
    numbers = watched(model)
    assert {i.role for i, _ in numbers} == {"weight", "bias"}
    begun = set()
    for step, tasks in enumerate(STEPS):
        fill(model, step, tasks)
        if absent == "drift":
            optimizers.step(tasks, drifting=EVERYONE)
        else:
            optimizers.step(tasks if absent == "still" else EVERYONE)
        present = {f"task:{TASKS[t].name}" for t in tasks}
        begun |= present
        moves = {"still": present, "drift": begun, "all": {f"task:{t.name}" for t in TASKS}}[absent]
        for item, literal in numbers:
            if item.owner in moves:
                literal.update(float(item.parameter.grad[item.slot].flatten()[0]))
            assert float(item.data.flatten()[0]) == pytest.approx(literal.value, rel=1e-9), (step, item.name)
    counts = {i.owner: n.step for i, n in numbers}
    expected = {"still": [3, 4, 5, 0], "drift": [7, 8, 8, 0], "all": [8] * 4}[absent]
    assert list(counts.values()) == expected


def test_the_first_update_fills_the_moments_alone():
    model, optimizers = made()
    before = [i.data.clone() for i in owned(model)]
    fill(model, 1, EVERYONE)
    optimizers.step(EVERYONE)
    assert all(torch.equal(i.data, b) for i, b in zip(owned(model), before, strict=True))
    states = [s for o in optimizers.optimizers.values() for s in o.state.values()]
    assert all(s.keys() == {"step", "exp_avg", "exp_avg_sq"} for s in states)
    assert all(s["step"] == 1 and s["exp_avg"].any() for s in states)


def test_gates_have_no_schedule():
    model = scramble(build("bert", {"use": "morris", "rank": 6, "bias_rank": 2, "l0": True}))
    more = {"optimizer": "bert_adam", "steps": 9, "warmup": 0.3}
    optimizers = OwnerOptimizers(model, lr=0.02, lr_of={"gates": 0.5}, **more)
    items = [i for i in owned(model) if i.trains]
    before = [i.data.clone() for i in items]
    fill(model, 1, EVERYONE)
    optimizers.set_factor(0.1)
    optimizers.step(EVERYONE)
    for item, old in zip(items, before, strict=True):
        # 0.1·g/(√(0.001)·|g|) = √10 of the rate for a gate; for all else the first factor is 0
        expected = 0.5 * math.sqrt(10) if item.role == "gate" else 0.0
        torch.testing.assert_close((item.data - old).abs(), torch.full_like(old, expected), rtol=1e-2, atol=0)


@settings(max_examples=examples(4))
@given(st.integers(1, len(STEPS) - 1))
def test_a_checkpoint_holds_all_of_it(tmp_path_factory, cut):
    """Stopped and gone on with = gone through, to the bit; the rate that the log tells too."""
    folder = tmp_path_factory.mktemp("run")
    through, goes_through = made(dtype=torch.float32)
    first, stops = made(dtype=torch.float32)
    again, goes_on = made(dtype=torch.float32)
    for step, tasks in enumerate(STEPS):
        if step == cut:
            load_checkpoint(save_checkpoint(folder, cut, first, stops, {}), again, goes_on)
            assert goes_on.lr == stops.lr
        both = [(through, goes_through), (first, stops) if step < cut else (again, goes_on)]
        for model, optimizers in both:
            fill(model, step, tasks)
            optimizers.clip(1.0, "tensor")
            optimizers.set_factor(0.5)  # its own schedule is not the loop's
            optimizers.step(tasks)
        assert both[0][1].lr == both[1][1].lr
    for (name, one), (_, other) in zip(through.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(one, other), name


def test_the_rate_that_the_log_tells_is_the_first_owner_s():
    model, optimizers = made(steps=10)
    told = []
    for _ in range(5):
        fill(model, 1, [0])
        optimizers.set_factor(1.0)
        optimizers.step([0])
        told.append(optimizers.lr)
    assert told == pytest.approx([0.02 * f for f in (0, 1 / 3, 2 / 3, 0.7, 0.6)])
