"""Gradient checkpointing of woven blocks, wherever the installed transformers checkpoints a block."""

from __future__ import annotations

import warnings

import pytest
import torch

from tests.support.more import some_of
from tests.support.tiny import batch, build, labels, no_dropout, scramble, tiny
from weft.acceleration import compiled as compiled_module
from weft.acceleration.compiled import Compiled, blocks_of
from weft.encoder.checkpointing import checkpoint_of, plain_forward
from weft.encoder.woven_block import WovenBlock


def enable_old(model):
    model.encoder.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def enable_new(model):
    if not hasattr(model.encoder, "activation_checkpointing_enable"):
        pytest.skip("this version of transformers has one name only")
    model.encoder.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})


def model_of(family):
    """PALs read what the route stores for a block, and LoRA reads its module's input."""
    return no_dropout(scramble(build(family, [{"use": "pals", "d_s": 12}, "lora"])))


def gradients_of(model, inputs):
    model.zero_grad()
    model.loss(model.run(**inputs), labels(model, inputs["task"])).backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.fixture
def passes(monkeypatch):
    """The number of times that each block ran, by its number."""
    counted = {}
    once = WovenBlock.once

    def counting(self, *args, **kwargs):
        counted[self.number] = counted.get(self.number, 0) + 1
        return once(self, *args, **kwargs)

    monkeypatch.setattr(WovenBlock, "once", counting)
    return counted


@pytest.mark.parametrize("enable", [enable_old, enable_new, lambda m: m.gradient_checkpointing_enable()])
@pytest.mark.parametrize("family", ["bert", "modernbert", "distilbert"])
def test_a_block_runs_twice_with_equal_gradients(family, enable, passes):
    model = model_of(family)
    inputs = batch(model)
    expected = gradients_of(model, inputs)
    assert set(passes.values()) == {1}
    passes.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)  # the deprecated name is weft's affair, not the user's
        enable(model)
    found = gradients_of(model, inputs)
    assert set(passes.values()) == {2}
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-6)


def test_in_evaluation_nothing_is_checkpointed(passes):
    model = model_of("bert")
    model.gradient_checkpointing_enable()
    model.eval()
    gradients_of(model, batch(model))
    assert set(passes.values()) == {1}


def test_every_second_block(passes):
    model = model_of("bert")
    if not hasattr(model.encoder, "activation_checkpointing_enable"):
        pytest.skip("this version of transformers checkpoints every block or none")
    model.encoder.activation_checkpointing_enable(every_n_layers=2)
    gradients_of(model, batch(model))
    assert [passes[n] for n in sorted(passes)] == [1 + (n % 2 == 0) for n in sorted(passes)]


@pytest.mark.slow
@pytest.mark.parametrize("backend", some_of(["aot_eager", "inductor"], 1))
def test_a_compiled_block_is_checkpointed_too(backend, monkeypatch):
    if backend != "inductor":
        plain = torch.compile
        monkeypatch.setattr(torch, "compile", lambda piece, **_: plain(piece, backend=backend, dynamic=True))
    calls = []
    run = compiled_module._Piece.__call__
    monkeypatch.setattr(
        compiled_module._Piece, "__call__", lambda self, *a, **k: calls.append(self) or run(self, *a, **k)
    )
    model = model_of("bert")
    inputs = batch(model)
    expected = gradients_of(model, inputs)
    model.gradient_checkpointing_enable()
    torch.compiler.reset()
    compiled = Compiled(model)
    try:
        found = gradients_of(model, inputs)
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-5)
        ran = [sum(call is one for call in calls) for one in compiled._calls]
        assert ran == [2] * len(blocks_of(model.encoder))
    finally:
        compiled.undo()
        torch.compiler.reset()


def test_the_forward_below_the_checkpoint():
    encoder = tiny("bert")
    for block in blocks_of(encoder):
        assert plain_forward(block).__self__ is block
        assert checkpoint_of(block) is None
