"""The fast check finds exactly what a check number by number finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.utils.finite import all_finite, not_finite

NUMBERS = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(st.lists(st.lists(NUMBERS, max_size=9), max_size=6))
def test_tensors_with_any_number_that_is_none_are_named(rows):
    tensors = {str(i): torch.tensor(row, dtype=torch.float32) for i, row in enumerate(rows)}
    assert not_finite(tensors) == [str(i) for i, row in enumerate(rows) if not np.isfinite(row).all()]


@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16, torch.float64, torch.float8_e5m2, torch.float8_e4m3fn, torch.complex64],
)
def test_any_floating_type(dtype):
    """The sum of these large numbers overflows in most of the types, though each of them is finite."""
    large = torch.full((300,), 400.0).to(dtype) if dtype.itemsize == 1 else torch.full((3,), 6e4).to(dtype)
    assert all_finite(large)
    assert not all_finite(torch.tensor([1.0, float("nan")]).to(dtype))


def test_large_numbers_whose_sum_overflows_are_finite():
    assert all_finite(torch.full((9,), 3e38))
    assert not all_finite(torch.tensor([3e38, 3e38, float("inf")]))
    assert not all_finite(torch.tensor([float("inf"), float("-inf")]))


def test_integers_and_nothing_at_all_are_finite():
    assert all_finite(torch.tensor([1, 2]))
    assert all_finite(torch.tensor([True]))
    assert all_finite(torch.empty(0))
    assert not_finite({}) == []
