"""Blocks of the further encoder families by torch's real compiler, on a CPU: outputs and gradients as eager.

The conformance table compiles them without generating code.
"""

from __future__ import annotations

import pytest
import torch

from tests.support.inductor import compile_quickly
from tests.support.tiny import CORE_FAMILIES, batch, build, labels, no_dropout, scramble
from weft.acceleration.compiled import Compiled

pytestmark = pytest.mark.slow

NEAR = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture(autouse=True)
def fresh_compiler(monkeypatch):
    compile_quickly(monkeypatch)
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def model_of(family):
    return scramble(build(family, {"use": "lora", "rank": 3}, layers=1, head_dropout=0.0))


def stepped(model, inputs):
    """The hidden states and gradients of one training step."""
    model.zero_grad()
    output = model.run(**inputs)
    model.loss(output, labels(model, inputs["task"])).backward()
    return output.hidden.detach(), {n: p.grad.clone() for n, p in model.named_parameters() if p.requires_grad}


@pytest.mark.parametrize("member", CORE_FAMILIES)
def test_inference_and_a_step_of_training_equal_eager(member):
    model = model_of(member)
    inputs = batch(model)
    other = inputs | {"task": (inputs["task"] + 1) % len(model.tasks)}
    with torch.no_grad():
        expected = [model(**one) for one in (inputs, other)]
        compiled = Compiled(model, fused=False)
        for one, plain in zip((inputs, other), expected, strict=True):
            found = model(**one)
            torch.testing.assert_close(found.hidden, plain.hidden, **NEAR)
            torch.testing.assert_close(found.logits, plain.logits, **NEAR)
        compiled.undo()
    no_dropout(model)
    hidden, gradients = stepped(model, inputs)
    compiled = Compiled(model)
    found_hidden, found_gradients = stepped(model, inputs)
    compiled.undo()
    torch.testing.assert_close(found_hidden, hidden, **NEAR)
    assert gradients
    for name, gradient in gradients.items():
        scale = gradient.abs().max().clamp_min(1e-3)
        difference = (found_gradients[name] - gradient).abs().max() / scale
        assert difference < 1e-3, name
