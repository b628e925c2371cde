"""What is done over an example's rows, against plain loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.core.layout import Layout

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@st.composite
def layouts(draw, fewest=1):
    """The rows of 1 to 5 examples, anywhere in the batch; or every row its own."""
    counts = draw(st.lists(st.integers(fewest, 4), min_size=1, max_size=5))
    rows = [e for e, count in enumerate(counts) for _ in range(count)]
    order = draw(st.permutations(rows))
    return Layout(torch.tensor(order), len(counts))


def rows_of(layout):
    return [[r for r, e in enumerate(layout.example.tolist()) if e == k] for k in range(layout.count)]


def numbers(layout, *shape, seed=1, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(len(layout.example), *shape, generator=generator) * scale


@given(layouts(), st.integers(0, 99), st.sampled_from([(), (3,), (2, 4)]))
def test_sums_and_means(layout, seed, shape):
    x = numbers(layout, *shape, seed=seed).requires_grad_()
    sums, means = layout.sum(x), layout.mean(x)
    for e, rows in enumerate(rows_of(layout)):
        torch.testing.assert_close(sums[e], sum(x[r] for r in rows), **CLOSE)
        torch.testing.assert_close(means[e], sum(x[r] for r in rows) / len(rows), **CLOSE)
    weights = torch.arange(1.0, layout.count + 1)
    (means.flatten(1).sum(1) if shape else means).mul(weights).sum().backward()
    for e, rows in enumerate(rows_of(layout)):
        for r in rows:
            torch.testing.assert_close(x.grad[r], torch.full(shape, weights[e].item() / len(rows)), **CLOSE)


@given(layouts(), st.integers(0, 99))
def test_what_an_example_has_its_rows_have(layout, seed):
    x = torch.randn(layout.count, 3, generator=torch.Generator().manual_seed(seed))
    found = layout.of_rows(x)
    assert all(torch.equal(found[r], x[e]) for r, e in enumerate(layout.example.tolist()))


@given(layouts(), st.integers(0, 99), st.sampled_from([0.1, 1.0, 40.0]), st.data())
def test_log_sum_exp(layout, seed, scale, data):
    x = numbers(layout, seed=seed, scale=scale).requires_grad_()
    kept = [data.draw(st.sets(st.sampled_from(rows), min_size=1)) for rows in rows_of(layout)]
    keep = torch.zeros(len(x)).index_fill(0, torch.tensor([r for own in kept for r in own]), 1.0)
    every, some, highest = layout.log_sum_exp(x), layout.log_sum_exp(x, keep), layout.max(x)
    values = x.double().tolist()
    for e, rows in enumerate(rows_of(layout)):
        top = max(values[r] for r in rows)
        assert highest[e].item() == pytest.approx(top)
        assert every[e].item() == pytest.approx(
            top + math.log(math.fsum(math.exp(values[r] - top) for r in rows)), rel=1e-5, abs=1e-5
        )
        top = max(values[r] for r in kept[e])
        assert some[e].item() == pytest.approx(
            top + math.log(math.fsum(math.exp(values[r] - top) for r in kept[e])), rel=1e-5, abs=1e-5
        )
    assert not highest.requires_grad
    some.sum().backward()
    for e, rows in enumerate(rows_of(layout)):
        shares = torch.softmax(x.detach()[sorted(kept[e])], 0)
        torch.testing.assert_close(x.grad[sorted(kept[e])], shares, **CLOSE)
        assert all(x.grad[r] == 0 for r in rows if r not in kept[e])


@pytest.mark.parametrize("away", [10.0, 80.0, 300.0, 1e6, 3e38])
def test_a_share_however_small_has_a_loss_and_a_gradient(away):
    """−log of the right row's share is the distance itself, where exp(−distance) is 0 in float32."""
    x = torch.tensor([0.0, -away], requires_grad=True)
    layout = Layout(torch.tensor([0, 0]), 1)
    loss = layout.log_sum_exp(x) - layout.log_sum_exp(x, torch.tensor([0.0, 1.0]))
    assert loss.item() == pytest.approx(away, rel=1e-4)
    loss.sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([1.0, -1.0]), atol=1e-4, rtol=0)


@given(layouts(), st.integers(0, 99))
def test_both(layout, seed):
    x = numbers(layout, 3, seed=seed).requires_grad_()
    found = layout.both(x)
    for rows in rows_of(layout):
        first, second = rows[0], rows[min(1, len(rows) - 1)]
        for r in rows:
            assert torch.equal(found[r], torch.cat([x[first], x[second]]))
    found.sum().backward()
    assert x.grad.isfinite().all()
    for rows in rows_of(layout):
        assert all((x.grad[r] == 0).all() for r in rows[2:])
        assert all((x.grad[r] != 0).all() for r in rows[:2])


def test_every_row_its_own():
    layout = Layout(None, 3)
    x = torch.randn(3, 2)
    for found in (layout.sum(x), layout.mean(x), layout.of_rows(x)):
        assert found is x
    assert torch.equal(layout.both(x), torch.cat([x, x], -1))
    one = x[:, 0]
    assert torch.equal(layout.max(one), one)
    torch.testing.assert_close(layout.log_sum_exp(one), one)
    torch.testing.assert_close(layout.log_sum_exp(one, torch.ones(3)), one)
