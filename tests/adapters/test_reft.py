"""LoReFT beside its equation, and the rows that must be orthonormal."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.peft_layers import TASKS, WIDE, rows_of, scrambled
from tests.support.tiny import batch, build
from weft.adapters.orthonormal import orthonormal_rows
from weft.adapters.reft import ReftAdapter
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import Site
from weft.errors import WeftError
from weft.training.optim.owners import OwnerOptimizers

SITE = Site("block", 0, WIDE, WIDE, "layer.0")
RANK = 3


def adapter_of(**settings):
    return ReftAdapter(SITE, Slots.per_task(TASKS), RANK, seed=0, **settings)


def off(q):
    """How far the rows are from orthonormal."""
    return (q @ q.mT - torch.eye(q.size(-2))).abs().max().item()


@settings(deadline=None)
@given(
    st.integers(1, 6),
    st.integers(6, 40),
    st.floats(1e-4, 1e4),
    st.floats(0, 0.999),
    st.integers(0, 2**31 - 1),
)
def test_rows_are_orthonormal_whatever_they_come_from(rank, width, length, alike, seed):
    """Of any length, and nearly parallel too: each is the sum of a common row and a small one."""
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(2, 1, width, generator=generator)
    m = length * (alike * common + (1 - alike) * torch.randn(2, rank, width, generator=generator))
    assert off(orthonormal_rows(m)) < 1e-5


def test_the_rows_span_those_they_come_from():
    m = torch.randn(4, RANK, WIDE, generator=torch.Generator().manual_seed(0))
    q = orthonormal_rows(m)
    torch.testing.assert_close(m @ q.mT @ q, m, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(orthonormal_rows(q), q, rtol=0, atol=1e-6)
    torch.testing.assert_close(orthonormal_rows(7 * m), q, rtol=0, atol=1e-6)
    assert orthonormal_rows(torch.zeros(2, RANK, WIDE)).isfinite().all()


def test_their_gradient_is_that_of_the_function():
    m = torch.randn(2, 2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert torch.autograd.gradcheck(orthonormal_rows, (m.requires_grad_(),))


def by_loops(adapter, x, task):
    """h + Rᵀ·(W·h + b − R·h), token by token, with R by Gram and Schmidt's process, row by row."""
    edited = []
    for r in range(x.size(0)):
        slot = int(task[r])
        rotation = []
        for row in adapter.R[slot]:
            for q in rotation:
                row = row - (q @ row) * q
            rotation.append(row / row.norm())
        rotation = torch.stack(rotation)
        source = adapter.W[slot] + rotation  # what is stored is the difference to R
        for token in x[r]:
            inside = source @ token + adapter.b[slot] - rotation @ token
            edited.append(token + rotation.T @ inside)
    return torch.stack(edited).view_as(x)


@pytest.mark.parametrize("random", [False, True])
def test_it_is_its_equation(random):
    """Outputs and the gradients of R, W and b, of a batch in which the tasks are mixed."""
    adapter = adapter_of(random=random)
    scrambled(adapter)
    x, _, route = rows_of()
    weight = torch.randn(x.shape, generator=torch.Generator().manual_seed(9))
    ours = adapter(x, route)
    names = [name for name, _ in adapter.named_parameters()]
    gradients = torch.autograd.grad((ours * weight).sum(), list(adapter.parameters()))
    expected = by_loops(adapter, x, route.task)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    reference = torch.autograd.grad((expected * weight).sum(), list(adapter.parameters()))
    for name, found, other in zip(names, gradients, reference, strict=True):
        torch.testing.assert_close(found, other, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


def test_in_the_subspace_the_value_is_replaced_and_elsewhere_it_stays():
    adapter = adapter_of()
    scrambled(adapter)
    x, _, route = rows_of()
    with torch.no_grad():
        moved = adapter(x, route)
        for number in range(len(TASKS)):
            rotation, source, shift = adapter.task_tables(number)
            rows = route.task == number
            expected = x[rows] @ (source + rotation).T + shift
            torch.testing.assert_close(moved[rows] @ rotation.T, expected, rtol=1e-4, atol=1e-4)
            outside = torch.eye(WIDE) - rotation.T @ rotation
            torch.testing.assert_close(moved[rows] @ outside, x[rows] @ outside, rtol=1e-4, atol=1e-4)


def test_the_two_starts():
    """The base exactly; or, as in the paper, W and b of a linear map and R orthonormal."""
    x, _, route = rows_of()
    with torch.no_grad():
        assert torch.equal(adapter_of()(x, route), x)
        adapter = adapter_of(random=True)
        assert not torch.allclose(adapter(x, route), x, atol=1e-2)
        for number in range(len(TASKS)):
            rotation, source, shift = adapter.task_tables(number)
            assert off(rotation) < 1e-5
            bound = 1 / math.sqrt(WIDE) + 1e-6
            assert (source + rotation).abs().max() <= bound
            assert (source + rotation).std() > 0.4 * bound
            assert 0 < shift.abs().max() <= bound
    first, second = adapter.task_tables(0)[0], adapter.task_tables(1)[0]
    assert not torch.allclose(first, second, atol=1e-2), "tasks start in different subspaces"


def test_rows_stay_orthonormal_while_it_trains():
    model = build("bert", {"use": "reft", "rank": 3})
    optimizers = OwnerOptimizers(model, lr=0.05, weight_decay=0.1)
    inputs = batch(model)
    start = model.adapters["0/block"][0].task_tables(0)[0]
    for _ in range(30):
        optimizers.zero_grad()
        model.run(**inputs).hidden.square().mean().backward()
        optimizers.step([0, 1, 2, 3])
    for _, adapter in model.placements:
        for task in range(len(model.tasks)):
            assert off(adapter.task_tables(task)[0]) < 1e-5
    now = model.adapters["0/block"][0].task_tables(0)[0]
    assert not torch.allclose(now, start, atol=1e-2), "R trains"


def test_what_a_trunk_holds_is_not_overwritten():
    adapter = adapter_of()
    scrambled(adapter)
    x = rows_of()[0]
    kept = x.clone()
    with torch.no_grad():
        adapter(x, Route(torch.zeros(6, dtype=torch.long)))
    assert torch.equal(x, kept)


def test_the_count_is_the_papers():
    """2·r·d + r per block: 73,776 at rank 4 at all block outputs of BERT-base."""
    model = weft.Model("random:bert-base", [weft.Task(t, size=2) for t in TASKS], "reft", device="meta")
    assert model.ledger()["per_task"] == dict.fromkeys(TASKS, 12 * (2 * 4 * 768 + 4))
    assert 12 * (2 * 4 * 768 + 4) == 73_776


def test_refusals():
    with pytest.raises(WeftError, match=r"reft at '0/block': rank 33, .* 32 dimensions; expected at most 32"):
        build("bert", {"use": "reft", "rank": 33})
    with pytest.raises(WeftError, match=r"the adapter at '0/block' cannot be merged: it changes the sum"):
        build("bert", "reft").merge("a")
