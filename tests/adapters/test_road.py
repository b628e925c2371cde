"""RoAd beside its equation and beside PEFT."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import RoadConfig

from tests.support.peft_layers import NARROW, TASKS, layer_of, map_of, rows_of, scrambled, site_of
from tests.support.tiny import build
from weft.adapters.road import RoadAdapter
from weft.core.stacked import Slots
from weft.encoder.sites import Site
from weft.errors import WeftError

CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def adapter_of(group=8, kind="query"):
    adapter = RoadAdapter(site_of(kind), Slots.per_task(TASKS), group)
    scrambled(adapter)
    return adapter


@pytest.mark.parametrize("group", [2, 8, 16])
def test_outputs_and_gradients_equal_pefts(group):
    """Of each task, with the rows of the other tasks in the same batch."""
    adapter, linear = adapter_of(group), map_of()
    x, weight, route = rows_of()
    ours = adapter.add_to(linear(x), x, route)
    (ours * weight).sum().backward()
    for number in range(len(TASKS)):
        twin = layer_of(RoadConfig(variant="road_1", group_size=group, target_modules=["map"]), map_of())
        layer = twin.base_model.model.map
        with torch.no_grad():
            layer.road_theta["default"].copy_(adapter.theta[number])
            layer.road_alpha["default"].copy_(1 + adapter.alpha[number])  # ours is the distance from 1
        rows = route.task == number
        found = twin(x[rows])
        torch.testing.assert_close(ours[rows], found, **CLOSE)
        (found * weight[rows]).sum().backward()
        torch.testing.assert_close(adapter.theta.grad[number], layer.road_theta["default"].grad, **CLOSE)
        torch.testing.assert_close(adapter.alpha.grad[number], layer.road_alpha["default"].grad, **CLOSE)


@given(
    theta=st.floats(-4, 4),
    alpha=st.floats(-1, 3),
    u=st.floats(-5, 5),
    v=st.floats(-5, 5),
    half=st.sampled_from([1, 2, 4]),
)
def test_a_pair_is_rotated_and_scaled(theta, alpha, u, v, half):
    """Two outputs a half group apart; all others keep what they were."""
    adapter = RoadAdapter(Site("query", 0, 3, 8, ""), Slots.per_task(["a"]), 2 * half)
    with torch.no_grad():
        adapter.theta[0, 0], adapter.alpha[0, 0] = theta, alpha - 1
    y = torch.arange(8.0)[None, None].repeat(2, 1, 1)
    y[..., 0], y[..., half] = u, v
    found = adapter.add_to(y.clone(), y, rows_of(rows=2)[2])
    expected = y.clone()
    expected[..., 0] = alpha * (math.cos(theta) * u - math.sin(theta) * v)
    expected[..., half] = alpha * (math.sin(theta) * u + math.cos(theta) * v)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_groups_that_cannot_be_pairs():
    with pytest.raises(WeftError, match=r"road at '0/query': groups of 24 .* an even divisor of 16"):
        adapter_of(24)
    with pytest.raises(WeftError, match="group"):
        build("bert", {"use": "road", "group": 3})
    assert adapter_of(None).group == NARROW
    assert RoadAdapter(Site("query", 0, 8, 128, ""), Slots.one(TASKS)).group == 64


def test_merged_weights_are_the_rotated_ones():
    adapter, linear = adapter_of(), map_of()
    x, _, route = rows_of()
    with torch.no_grad():
        expected = adapter.add_to(linear(x), x, route)
        for number in range(len(TASKS)):
            weight, bias = adapter.merge_into(number, linear.weight, linear.bias)
            rows = route.task == number
            torch.testing.assert_close(torch.nn.functional.linear(x[rows], weight, bias), expected[rows])
        assert adapter.merge_into(0, linear.weight, None)[1] is None
