"""Wide updates merged into one weight per task compute what the adapters compute."""

from __future__ import annotations

import pytest
import torch

from tests.support.patching import inputs_of
from tests.support.tiny import TASKS, build, scramble
from weft.acceleration import merged_maps
from weft.acceleration.compiled import patches_of
from weft.acceleration.fused_qkv import groups_of
from weft.acceleration.merged_maps import MergedMaps
from weft.acceleration.patch import PatchStack

METHODS = {
    "vera": {"use": "vera", "rank": 48},
    "vera at every map": {
        "use": "vera",
        "rank": 40,
        "sites": "query, key, value, attention_out, ffn_in, ffn_out",
        "share": {"first": ["a", "c"]},
    },
    "vera beside others": [{"use": "vera", "rank": 48}, "bitfit", {"use": "dora", "rank": 2}],
}


def maps_of(model):
    return [linear for maps in groups_of(model.encoder) for linear in maps]


def frozen(family, method):
    return scramble(build(family, METHODS[method])).requires_grad_(False)


def hidden(model, task=None):
    inputs = inputs_of(8)
    inputs["task"] = torch.arange(8) % len(TASKS) if task is None else torch.full((8,), task)
    with torch.no_grad():
        return model(**inputs).hidden[inputs["attention_mask"].bool()]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", ["bert", "distilbert", "modernbert"])
def test_merged_maps_compute_the_same(family, method):
    model = frozen(family, method)
    expected = [hidden(model), hidden(model, 2)]
    patch = MergedMaps(model, maps_of(model), anyway=True)
    assert patch.modules
    for found, one in zip((hidden(model), hidden(model, 2)), expected, strict=True):
        torch.testing.assert_close(found, one, rtol=1e-4, atol=1e-4)
        assert not torch.equal(found, one)  # by a different product
    patch.undo()
    assert torch.equal(hidden(model), expected[0])
    patch.apply()
    torch.testing.assert_close(hidden(model), expected[0], rtol=1e-4, atol=1e-4)


def test_rows_are_sorted_for_them_while_they_are_applied():
    model = frozen("bert", "vera")
    assert model.ordered.maps == ()
    patch = MergedMaps(model, maps_of(model), anyway=True)
    assert model.ordered.maps == ((4, 32, 32),)
    patch.undo()
    assert model.ordered.maps == ()


def test_without_adapters_they_are_the_encoders():
    model = frozen("bert", "vera")
    with model.adapters_off():
        expected = hidden(model)
        MergedMaps(model, maps_of(model), anyway=True)
        torch.testing.assert_close(hidden(model), expected)


def test_what_is_not_merged():
    trained = scramble(build("bert", METHODS["vera"]))
    assert not MergedMaps(trained, maps_of(trained), anyway=True).modules
    narrow = scramble(build("bert", {"use": "vera", "rank": 4})).requires_grad_(False)
    assert not MergedMaps(narrow, maps_of(narrow), anyway=True).modules
    lora = scramble(build("bert", "lora")).requires_grad_(False)
    assert not MergedMaps(lora, maps_of(lora), anyway=True).modules
    model = frozen("bert", "vera")
    assert not MergedMaps(model, maps_of(model)).modules  # a CPU has no grouped product


@pytest.mark.parametrize(("free", "merged"), [(10**9, True), (1000, False)])
def test_only_where_there_is_memory(monkeypatch, free, merged):
    """As on a GPU, up to a quarter of what is free."""
    monkeypatch.setattr(merged_maps, "can_group", lambda device, half: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, free))
    model = frozen("bert", "vera")
    expected = hidden(model)
    stack = PatchStack(list(patches_of(model, fused=False, gpu=True)))
    assert any(isinstance(p, MergedMaps) and p.modules for p in stack.patches) is merged
    torch.testing.assert_close(hidden(model), expected, rtol=1e-3, atol=1e-3)
    stack.undo()
    assert torch.equal(hidden(model), expected)


def test_training_merges_nothing():
    model = frozen("bert", "vera")
    assert not any(isinstance(p, MergedMaps) for p in patches_of(model, fused=True, gpu=True))
