"""The norms of DoRA from small products, and its equation."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.support.more import examples
from weft.adapters.dora import DoraAdapter
from weft.core.route import Route
from weft.core.stacked import Slots
from weft.encoder.sites import Site

TASKS = ("a", "b", "c")


def adapter_of(width, out, rank, scale, seed, bias=True, part=(0, 1)):
    """An adapter far from its start, and the map that it is bound to."""
    torch.manual_seed(seed)
    site = Site("query", 0, width, out, "", part)
    adapter = DoraAdapter(site, Slots.per_task(TASKS), rank, scale, 0.0, seed)
    linear = nn.Linear(width, out * part[1], bias=bias).requires_grad_(False)
    adapter.bind_map(linear)
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.5)
    return adapter, linear


@settings(max_examples=examples(40), deadline=None)
@given(
    width=st.integers(1, 9),
    out=st.integers(1, 9),
    rank=st.integers(1, 12),
    scale=st.floats(0.1, 4),
    seed=st.integers(0, 99),
)
def test_norms_are_those_of_the_whole_weights(width, out, rank, scale, seed):
    adapter, linear = adapter_of(width, out, rank, scale, seed)
    whole = linear.weight.double() + scale * adapter.B.double() @ adapter.A.double()
    for apart in (False, True):
        found = adapter._norms(apart)
        assert not found.requires_grad
        torch.testing.assert_close(found.double(), whole.norm(dim=2).detach(), rtol=1e-4, atol=1e-4)


@settings(max_examples=examples(20), deadline=None)
@given(bias=st.booleans(), index=st.integers(0, 2), seed=st.integers(0, 99))
def test_its_equation_for_each_slice_of_a_map(bias, index, seed):
    adapter, linear = adapter_of(5, 4, 2, 1.5, seed, bias, (index, 3))
    x, task = torch.randn(6, 3, 5), torch.tensor([2, 0, 1, 1, 0, 2])
    route = Route(task)
    weight = linear.weight.chunk(3)[index]
    b = linear.bias.chunk(3)[index] if bias else torch.zeros(4)
    updated = weight + 1.5 * adapter.B @ adapter.A  # [3, 4, 5]
    gained = adapter.m[..., None] / updated.norm(dim=2, keepdim=True) * updated
    expected = torch.bmm(x, gained[task].transpose(1, 2)) + b
    y = x @ weight.T + b
    torch.testing.assert_close(adapter.add_to(y.clone(), x, route), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(y + adapter(x, route), expected, rtol=1e-4, atol=1e-5)
    adapter.eval().refresh()
    with torch.no_grad():
        torch.testing.assert_close(adapter.add_to(y.clone(), x, route), expected, rtol=1e-4, atol=1e-5)
    assert adapter.fresh


def test_a_row_that_cancels_has_finite_outputs():
    adapter, linear = adapter_of(4, 4, 4, 1.0, 0)
    with torch.no_grad():
        adapter.A.copy_(linear.weight.expand(3, 4, 4))
        adapter.B.copy_(-torch.eye(4).expand(3, 4, 4))
    x = torch.randn(3, 2, 4)
    y = adapter.add_to(x @ linear.weight.T + linear.bias, x, Route(torch.tensor([0, 1, 2])))
    assert y.isfinite().all()
