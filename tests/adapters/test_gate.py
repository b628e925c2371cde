"""The hard concrete distribution against the code of its authors, and gates as modules."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from tests.support.golden import golden
from weft.adapters.gate import OPEN, SHUT, RankGate, hard_concrete, open_probability
from weft.core.gate_settings import L0
from weft.core.route import Route
from weft.core.stacked import Slots

TASKS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def numbers():
    return load_file(golden("extra") / "hard_concrete.safetensors")


@pytest.mark.parametrize(("low", "high"), [(-1.5, 1.5), (-0.1, 1.1)])
def test_z_its_gradient_and_the_penalty_are_those_of_diffpruning(numbers, low, high):
    key = f"l{low}_r{high}"
    alpha = numbers["alpha"].clone().requires_grad_()
    u = numbers["u"].clamp(1e-4, 1 - 1e-4)
    z = hard_concrete(alpha, u, low, high)
    torch.testing.assert_close(z, numbers[f"diffpruning.z_{key}"], atol=1e-6, rtol=1e-5)
    (gradient,) = torch.autograd.grad(z.sum(), alpha)
    torch.testing.assert_close(gradient, numbers[f"diffpruning.dz_dalpha_{key}"], atol=1e-6, rtol=1e-5)
    penalty = open_probability(alpha, low, high)
    torch.testing.assert_close(penalty, numbers[f"diffpruning.penalty_{key}"], atol=1e-6, rtol=1e-5)


def test_with_a_temperature_it_is_that_of_louizos(numbers):
    alpha, low, high, beta = numbers["alpha"], -0.1, 1.1, 2 / 3
    u = numbers["u"].clamp(1e-6, 1 - 1e-6)
    found = hard_concrete(alpha, u, low, high, beta)
    torch.testing.assert_close(found, numbers["louizos.z_beta2/3"], atol=1e-5, rtol=1e-5)
    found = open_probability(alpha, low, high, beta).clamp(1e-6, 1 - 1e-6)
    torch.testing.assert_close(found, numbers["louizos.prob_nonzero"], atol=1e-6, rtol=1e-5)
    found = hard_concrete(alpha, None, low, high, beta)
    torch.testing.assert_close(found, numbers["louizos.z_test"], atol=1e-6, rtol=1e-5)


@given(st.floats(-8, 8), st.floats(-3, -0.05), st.floats(1.05, 3), st.floats(0.3, 2))
def test_the_penalty_is_the_chance_to_be_open(alpha, low, high, beta):
    """Over an even grid of u the share of z ≠ 0 is the probability that the penalty says."""
    grid = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    z = hard_concrete(torch.full_like(grid, alpha), grid, low, high, beta)
    said = open_probability(torch.tensor(alpha, dtype=torch.float64), low, high, beta)
    assert float((z > 0).double().mean()) == pytest.approx(float(said), abs=1e-4)


def gate(slots=None, rank=5, **settings) -> RankGate:
    return RankGate(slots or Slots.one(TASKS), rank, L0(**settings))


def test_gates_begin_open_and_are_drawn_only_in_training_under_noise():
    made = gate()
    route = Route(torch.tensor([0, 2]))
    assert torch.equal(made(route), torch.ones(1, 5))
    made.draw(torch.Generator().manual_seed(1))
    drawn = made.train()(route)
    assert not torch.equal(drawn, torch.ones(1, 5)) or not torch.equal(made.noise, torch.full((1, 5), 0.5))
    assert torch.equal(made(route), drawn)  # one u for all that runs in a step
    assert torch.equal(made.eval()(route), torch.ones(1, 5))
    made.draw(None)
    assert torch.equal(made.train()(route), torch.ones(1, 5))


def test_draws_are_the_seeds_and_stay_off_the_ends():
    one, other = gate(rank=5000), gate(rank=5000)
    one.draw(torch.Generator().manual_seed(3))
    other.draw(torch.Generator().manual_seed(3))
    assert torch.equal(one.noise, other.noise)
    other.draw(torch.Generator().manual_seed(4))
    assert not torch.equal(one.noise, other.noise)
    assert one.noise.min() >= 1e-4
    assert one.noise.max() <= 1 - 1e-4
    assert "noise" not in one.state_dict()


def test_deciding_opens_and_shuts_for_good():
    made = gate(Slots.per_task(TASKS), rank=2)
    with torch.no_grad():
        made.alpha.copy_(torch.tensor([[0.49, 0.51], [-3.0, 7.0], [0.5, 0.0]]))
    made.decide()
    assert made.alpha.tolist() == [[SHUT, OPEN], [SHUT, OPEN], [OPEN, SHUT]]
    assert made.values().tolist() == [[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]
    assert not made.alpha.requires_grad
    assert made(Route(torch.tensor([2, 0]))).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_gate_that_hardly_opens_has_a_gradient_toward_the_penalty():
    made = gate(start=0.0)
    made.open_probability().sum().backward()
    assert (made.alpha.grad > 0).all()
