"""(IA)³'s scales beside PEFT, at maps and at the value that the feed-forward part's output map reads."""

from __future__ import annotations

import pytest
import torch
from peft import IA3Config
from torch.nn import functional as F

from tests.support.peft_layers import TASKS, layer_of, map_of, rows_of, scrambled, site_of
from weft.adapters.scale import ScaleAdapter
from weft.core.stacked import Slots

CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def adapter_of(kind):
    adapter = ScaleAdapter(site_of(kind), Slots.per_task(TASKS))
    scrambled(adapter)
    return adapter


def applied(adapter, linear, x, route):
    if adapter.site.kind == "ffn_hidden":
        return linear(adapter(x, route))
    return adapter.add_to(linear(x), x, route)


@pytest.mark.parametrize("kind", ["key", "ffn_hidden"])
def test_outputs_and_gradients_equal_pefts(kind):
    adapter, linear = adapter_of(kind), map_of()
    x, weight, route = rows_of()
    ours = applied(adapter, linear, x, route)
    (ours * weight).sum().backward()
    feed_forward = ["map"] if kind == "ffn_hidden" else []
    for number in range(len(TASKS)):
        twin = layer_of(IA3Config(target_modules=["map"], feedforward_modules=feed_forward), map_of())
        scale = twin.base_model.model.map.ia3_l["default"]
        with torch.no_grad():
            scale.copy_((1 + adapter.l[number]).view_as(scale))  # ours is the distance from 1
        rows = route.task == number
        found = twin(x[rows])
        torch.testing.assert_close(ours[rows], found, **CLOSE)
        (found * weight[rows]).sum().backward()
        torch.testing.assert_close(adapter.l.grad[number], scale.grad.flatten(), **CLOSE)


@pytest.mark.parametrize("kind", ["key", "ffn_hidden"])
def test_merged_weights_are_the_scaled_ones(kind):
    adapter, linear = adapter_of(kind), map_of()
    x, _, route = rows_of()
    with torch.no_grad():
        expected = applied(adapter, linear, x, route)
        for number in range(len(TASKS)):
            weight, bias = adapter.merge_into(number, linear.weight, linear.bias)
            rows = route.task == number
            torch.testing.assert_close(F.linear(x[rows], weight, bias), expected[rows])
        assert adapter.merge_into(0, linear.weight, None)[1] is None


def test_the_result_has_the_dtype_of_the_value():
    """Under autocast a float32 vector must not lift the stream to float32."""
    for kind in ("key", "ffn_hidden"):
        adapter = adapter_of(kind)
        value = torch.randn(6, 4, adapter.l.size(1))
        wide = adapter(value, rows_of()[2])
        half = adapter(value.bfloat16(), rows_of()[2])
        assert half.dtype == torch.bfloat16
        torch.testing.assert_close(half.float(), wide, rtol=2e-2, atol=2e-2)
