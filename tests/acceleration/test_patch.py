"""What a model wears while it trains changes nothing it computes beyond rounding, nor what is saved."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.support.patching import TASKS, inputs_of, logits
from tests.support.tiny import CONFIGS, tiny
from weft.acceleration.bf16_norms import Bf16Norms
from weft.acceleration.bf16_weights import Bf16Weights
from weft.acceleration.fused_qkv import FusedMaps
from weft.acceleration.packed import fields_of, pack, views
from weft.acceleration.patch import PatchStack
from weft.errors import WeftError
from weft.inference.captured import CapturedModel


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("method", ["lora", "full"])
def test_maps_of_one_input_are_one_product(method, family):
    model = weft.Model(tiny(family), TASKS, {"use": method}).eval()
    for p in model.adapters.parameters():
        torch.nn.init.normal_(p, std=0.1)
    batch = inputs_of()
    expected = logits(model(**batch))
    saved = {k: v.clone() for k, v in model.state_dict().items()}
    fused = FusedMaps(model.encoder)
    found = logits(model(**batch))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    if method == "full":  # weights that train get their gradients through the one product
        found.sum().backward()
        grads = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        model.zero_grad()
        fused.undo()
        logits(model(**batch)).sum().backward()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                torch.testing.assert_close(grads[name], parameter.grad, rtol=1e-4, atol=1e-5)
    fused.undo()
    assert torch.equal(logits(model(**batch)), expected)
    assert all(torch.equal(v, saved[k]) for k, v in model.state_dict().items())


@pytest.mark.parametrize("family", CONFIGS)
def test_frozen_maps_in_bf16_give_what_autocast_gives(family):
    model = weft.Model(tiny(family), TASKS, "lora").eval()
    batch = inputs_of()
    whole = {k: v.clone() for k, v in model.state_dict().items()}
    with torch.autocast("cpu", torch.bfloat16):
        expected = logits(model(**batch))
        frozen = Bf16Weights(model)
        assert len(frozen) > 0
        assert torch.equal(logits(model(**batch)), expected)
    with PatchStack([frozen]).suspended():
        assert all(torch.equal(v, whole[k]) for k, v in model.state_dict().items())
    frozen.undo()
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_nothing_that_trains_is_rounded():
    model = weft.Model(tiny("bert"), TASKS, "full")
    assert len(Bf16Weights(model)) <= 2  # the pooler, where no head reads it
    assert all(p.dtype == torch.float32 for p in model.parameters() if p.requires_grad)


def test_norms_are_rounded_in_post_norm_encoders_and_given_back():
    model = weft.Model(tiny("bert"), TASKS, "bitfit").eval()
    batch = inputs_of()
    before = logits(model(**batch))
    with torch.autocast("cpu", torch.bfloat16):
        wide = model(**batch)
        norms = Bf16Norms(model)
        narrow = model(**batch)
    assert wide.hidden.dtype == torch.float32
    assert narrow.hidden.dtype == torch.bfloat16
    torch.testing.assert_close(narrow.hidden.float(), wide.hidden, rtol=0.05, atol=0.05)
    norms.undo()
    assert torch.equal(logits(model(**batch)), before)
    pre_norm = weft.Model(tiny("modernbert"), TASKS, "bitfit").eval()
    with torch.autocast("cpu", torch.bfloat16):
        expected = pre_norm(**batch).hidden
        Bf16Norms(pre_norm)
        assert torch.equal(pre_norm(**batch).hidden, expected)


def test_a_captured_model_answers_as_the_model_and_is_given_back():
    model = weft.Model(tiny("bert"), TASKS, "lora").eval()
    trains = {n: p.requires_grad for n, p in model.named_parameters()}
    first, second = inputs_of(), inputs_of(9, 12)
    expected = [logits(model(**batch)) for batch in (first, second)]
    captured = CapturedModel(model)
    for _ in range(2):
        for batch, right in zip((first, second), expected, strict=True):
            torch.testing.assert_close(logits(captured(**batch)), right)
    captured.close()
    assert {n: p.requires_grad for n, p in model.named_parameters()} == trains
    assert not model.training
    captured = CapturedModel(model.train())
    torch.testing.assert_close(logits(captured(**first)), expected[0])
    captured.close()
    assert not model.training  # inference leaves a model in eval mode


def test_a_model_of_many_encoders_is_not_captured():
    model = weft.Model(tiny("bert"), TASKS, "separate")
    with pytest.raises(WeftError, match="method 'separate' cannot be captured"):
        CapturedModel(model)
    assert model.training


DTYPES = st.sampled_from([torch.int64, torch.float32, torch.uint8, torch.float64])


@given(st.lists(st.tuples(DTYPES, st.lists(st.integers(0, 5), max_size=3)), min_size=1, max_size=6))
def test_what_is_packed_is_found_again(forms):
    tensors = {f"x{n}": (torch.rand(shape) * 100).to(dtype) for n, (dtype, shape) in enumerate(forms)}
    memory = pack(tensors, pinned=False)
    found = views(memory, fields_of(tensors))
    assert list(found) == list(tensors)
    for name, value in tensors.items():
        assert torch.equal(found[name], value)
        assert found[name].dtype == value.dtype
