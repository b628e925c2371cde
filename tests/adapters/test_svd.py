"""The largest singular values, by a whole decomposition of small maps and by iteration of large ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.more import examples
from weft.adapters.svd import factors_from_files, top_singular


@settings(max_examples=examples(30), deadline=None)
@given(out=st.integers(1, 12), width=st.integers(1, 12), rank=st.integers(1, 14), seed=st.integers(0, 99))
def test_of_small_maps(out, width, rank, seed):
    weight = torch.randn(out, width, generator=torch.Generator().manual_seed(seed))
    left, values, right = top_singular(weight, rank)
    assert (left.shape, values.shape, right.shape) == ((out, rank), (rank,), (rank, width))
    expected = torch.linalg.svdvals(weight)[:rank]
    torch.testing.assert_close(values[: len(expected)], expected)
    assert not values[len(expected) :].any()
    if rank >= min(out, width):
        torch.testing.assert_close(left * values @ right, weight, rtol=1e-4, atol=1e-5)


def test_of_a_large_map():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(150, 200, generator=generator) * 0.1
    weight += torch.randn(150, 5, generator=generator) @ torch.randn(5, 200, generator=generator)
    left, values, right = top_singular(weight, 8)
    u, s, vt = torch.linalg.svd(weight)
    torch.testing.assert_close(values, s[:8], rtol=1e-4, atol=1e-4)
    product = u[:, :5] * s[:5] @ vt[:5]
    torch.testing.assert_close(left[:, :5] * values[:5] @ right[:5], product, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(left.T @ left, torch.eye(8), rtol=0, atol=1e-5)
    assert (left.gather(0, left.abs().argmax(0, keepdim=True)) > 0).all()
    torch.manual_seed(5)  # whatever the state of torch's generator is
    again = zip(top_singular(weight, 8), (left, values, right), strict=True)
    assert all(torch.equal(one, two) for one, two in again)


@pytest.mark.parametrize("shape", [(4, 6), (100, 90)])
def test_factors_that_come_from_files_are_not_computed(shape):
    weight = torch.randn(*shape)
    with factors_from_files():
        assert not any(part.any() for part in top_singular(weight, 3))
    assert all(part.any() for part in top_singular(weight, 3))
