from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.core.route import Route
from weft.core.stacked import Slots, StackedModule
from weft.errors import WeftError
from weft.kernels.dispatch import row_linear

NAMES = ["a", "b", "c", "d"]


class Two(StackedModule):
    def __init__(self, slots):
        super().__init__()
        self.stack("w", (3, 2), slots, "weight")
        self.start("w", lambda t, g: t.normal_(generator=g), 0, "here")


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_a_row_gets_its_tasks_entry(task):
    route = Route(torch.tensor(task))
    own = Two(Slots.per_task(NAMES))
    assert torch.equal(own.take("w", route), own.w[task])
    one = Two(Slots.one(NAMES))
    assert torch.equal(one.take("w", route), one.w)
    groups = Two(Slots.grouped(NAMES, {"g": ["d", "b"]}))
    assert groups.stacks["w"].slots.owners == ("task:a", "group:g", "task:c")
    assert torch.equal(groups.take("w", route), groups.w[[[0, 1, 2, 1][t] for t in task]])


@given(st.integers(1, 5), st.integers(1, 4))
def test_each_row_through_its_own_map(rows, length):
    x, w = torch.randn(rows, length, 3), torch.randn(rows, 2, 3)
    expected = torch.stack([x[r] @ w[r].T for r in range(rows)])
    torch.testing.assert_close(row_linear(x, w), expected)
    torch.testing.assert_close(row_linear(x, w[:1]), x @ w[0].T)


def test_the_backward_is_the_same_every_time():
    module = Two(Slots.per_task(NAMES))
    route = Route(torch.arange(64) % 4)
    x = torch.randn(64, 33, 2)
    first = None
    for _ in range(20):
        module.zero_grad()
        row_linear(x, module.take("w", route)).sin().sum().backward()
        first = module.w.grad.clone() if first is None else first
        assert torch.equal(module.w.grad, first)


def test_a_start_depends_on_the_owner_and_not_on_the_company():
    alone, together = Two(Slots.per_task(["c"])), Two(Slots.per_task(NAMES))
    assert torch.equal(alone.w[0], together.w[2])
    assert not torch.equal(together.w[0], together.w[2])


def test_groups_that_cannot_be():
    with pytest.raises(WeftError, match="group 'g' names the task 'colla'; did you mean 'cola'"):
        Slots.grouped(["cola", "rte"], {"g": ["colla"]})
    with pytest.raises(WeftError, match="task 'a' is in two groups, 'g' and 'h'"):
        Slots.grouped(NAMES, {"g": ["a"], "h": ["a"]})


def test_no_slot_table_in_the_state_dict():
    module = Two(Slots.grouped(NAMES, {"g": ["d", "b"]}))
    assert list(module.state_dict()) == ["w"]
    assert "_w_slot" in dict(module.named_buffers())
