"""Packing a batch into one block of memory."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.acceleration.packed import ALIGNMENT, fields_of, pack, size_of, views

TYPES = [torch.int64, torch.int32, torch.bool, torch.float32, torch.bfloat16]


def made(dtype, shape):
    values = torch.arange(torch.Size(shape).numel()).reshape(shape) % 7
    return values.to(dtype)


@given(
    tensors=st.lists(
        st.tuples(st.sampled_from(TYPES), st.lists(st.integers(0, 5), max_size=3)), min_size=1, max_size=5
    )
)
def test_views_of_packed_memory_equal_what_was_packed(tensors):
    named = {f"x{number}": made(dtype, shape) for number, (dtype, shape) in enumerate(tensors)}
    memory = pack(named, pinned=False)
    assert memory.numel() == size_of(fields_of(named))
    found = views(memory, fields_of(named))
    for name, tensor in named.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].equal(tensor)
        assert (found[name].data_ptr() - memory.data_ptr()) % ALIGNMENT == 0


@pytest.mark.parametrize("dtype", TYPES)
def test_a_tensor_that_is_not_contiguous_is_packed_by_its_values(dtype):
    tensor = made(dtype, [4, 6]).T[::2]
    memory = pack({"x": tensor}, pinned=False)
    assert views(memory, fields_of({"x": tensor}))["x"].equal(tensor)
