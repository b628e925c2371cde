"""Building blocks of adapters."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.adapters.stacked import slot_sigmoid


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_the_sigmoid_of_a_slot_does_not_depend_on_the_number_of_slots(slots, width, seed):
    table = torch.randn(slots + 1, width, generator=torch.Generator().manual_seed(seed))
    fewer = slot_sigmoid(table[:slots].clone())
    assert fewer.dtype == table.dtype
    assert torch.equal(slot_sigmoid(table)[:slots], fewer)
    torch.testing.assert_close(fewer, table[:slots].sigmoid())
