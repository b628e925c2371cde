"""Which attention runs: queries, keys and values as one where they are, and nothing but what was asked."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

from tests.support.patching import inputs_of
from tests.support.tiny import TASKS, build, labels, scramble
from weft.acceleration import attention as by_length
from weft.acceleration import compiled as pieces
from weft.acceleration.attention import TOGETHER, AttentionByLength
from weft.acceleration.compiled import Compiled, patches_of
from weft.acceleration.fused_qkv import FusedMaps, groups_of
from weft.acceleration.joined_maps import JoinedMaps
from weft.kernels import joined as kernels_joined
from weft.kernels.attention import HERE, _in_heads, new_key

INTERPRETED = HERE and os.environ.get("TRITON_INTERPRET") == "1" and not torch.cuda.is_available()

FAMILIES = ("bert", "roberta", "electra", "distilbert", "modernbert")

METHODS = {
    "full": "full",
    "lora": "lora",
    "lora with dropout": {"use": "lora", "dropout": 0.1},
    "lora at values, with dropout": {"use": "lora", "dropout": 0.1, "sites": ["value"]},
    "morris": "morris",
    "pals": "pals",
    "ca_mtl": "ca_mtl",
}


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """On a CPU other ways are cheaper; here it is about what is computed."""
    monkeypatch.setattr(kernels_joined, "choose", lambda *args, **kwargs: "side")
    monkeypatch.setattr(by_length, "runs_on", lambda device: True)


def plain(query, key, value, mask, dropout, scale, seed=None):
    assert dropout == 0.0
    scores = query @ key.transpose(-1, -2) * scale
    return ((scores if mask is None else scores + mask).softmax(-1) @ value).transpose(1, 2)


def dressed(model):
    """As on a GPU."""
    joined = JoinedMaps(groups_of(model.encoder))
    FusedMaps(model.encoder, but=joined.modules)
    return AttentionByLength(model.encoder)


def loss_of(model):
    batch = inputs_of(8)
    batch["task"] = torch.arange(8) % len(TASKS)
    return model.loss(model(**batch), labels(model, batch["task"]))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_attended_to_is_what_the_encoder_says(family, method, monkeypatch):
    """The kernels take what is computed as one only if nobody changes it on the way."""
    model = scramble(build(family, METHODS[method])).eval()
    expected = loss_of(model)
    whole = []

    def of_whole(x, width, *rest):
        whole.append(x)
        return plain(*_in_heads(x, width), *rest)

    monkeypatch.setattr(by_length, "fits", lambda *given: True)
    monkeypatch.setattr(by_length, "attend", plain)
    monkeypatch.setattr(by_length, "attend_whole", of_whole)
    patch = dressed(model)
    torch.testing.assert_close(loss_of(model), expected, rtol=1e-4, atol=1e-5)
    taken = family in ("bert", "roberta", "electra") and "dropout" not in method
    assert not taken or len(whole) == 2  # one a block
    assert "dropout" not in method or not whole  # an adapter is on top of what is one
    for _, together in patch._together:
        assert together.latest is None
    patch.undo()
    assert not any(TOGETHER in module.__dict__ for module in model.modules())


def test_a_mask_that_learns_is_not_for_the_kernels(monkeypatch):
    """They compute no gradient for it."""
    asked = []
    real = by_length.fits
    monkeypatch.setattr(by_length, "fits", lambda q, k, m: asked.append((m, real(q, k, m))) or False)
    model = scramble(build("bert", "ca_mtl")).train()
    dressed(model)
    loss_of(model).backward()
    assert any(mask.requires_grad for mask, _ in asked)
    assert not any(fit for mask, fit in asked)


def test_keys_are_two_numbers():
    key = new_key(torch.device("cpu"))
    assert key.shape == (2,)
    assert key.dtype == torch.int32


@pytest.mark.cpu
@pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1, without a GPU")
@pytest.mark.parametrize("method", ["lora", "morris", "full"])
def test_compiled_blocks_attend_as_eager_ones(method, monkeypatch):
    """With all patches of a GPU, dropout included: random numbers follow from keys, so both draw the same."""
    monkeypatch.setattr(by_length, "fits", lambda *given: True)
    model = scramble(build("bert", METHODS[method])).train()
    for module in model.encoder.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.2
    for head in model.heads.values():
        head.dropout = 0.0
    monkeypatch.setattr(pieces, "patches_of", lambda model, fused, gpu: patches_of(model, fused, True))
    compiled = Compiled(model)
    with compiled.uncompiled():
        torch.manual_seed(3)
        expected = loss_of(model)
        expected.backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    torch.manual_seed(3)
    actual = loss_of(model)
    actual.backward()
    compiled.undo()
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    for name, p in model.named_parameters():
        if name in grads:
            torch.testing.assert_close(p.grad, grads[name], rtol=1e-3, atol=1e-5)
