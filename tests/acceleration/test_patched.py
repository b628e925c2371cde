"""Whatever a GPU's engine changes under a compiled model, every method computes what it did before."""

from __future__ import annotations

import pytest
import torch

from tests.support.patching import inputs_of
from tests.support.tiny import TASKS, build, labels, no_dropout, scramble
from weft.acceleration import attention as by_length
from weft.acceleration.compiled import patches_of
from weft.acceleration.patch import PatchStack
from weft.kernels import joined as kernels_joined
from weft.methods import METHODS

FAMILIES = ("bert", "distilbert", "deberta-v3", "modernbert")
CLOSE = {"rtol": 3e-4, "atol": 3e-5}


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """On a CPU other ways are cheaper."""
    monkeypatch.setattr(kernels_joined, "choose", lambda *args, **kwargs: "side")
    monkeypatch.setattr(by_length, "runs_on", lambda device: True)


def loss_of(model):
    batch = inputs_of(8)
    one = model.method.separate  # a step of it is of one task
    batch["task"] = torch.zeros(8, dtype=torch.long) if one else torch.arange(8) % len(TASKS)
    return model.loss(model(**batch), labels(model, batch["task"]))


def gradients(model):
    model.zero_grad(set_to_none=True)
    loss = loss_of(model)
    loss.backward()
    return loss.detach(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def forwards(model):
    """Where a module's forward is its own, and what it is woven with."""
    return {name: m.__dict__["forward"] for name, m in model.named_modules() if "forward" in m.__dict__}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_dressed_model_computes_the_same(family, method):
    """At rest with its dropouts in place, and training without: adapters around a dropout are still there."""
    model = scramble(build(family, method))
    before = forwards(model)
    with torch.no_grad():
        expected = loss_of(model.eval())
    patch_stack = PatchStack(list(patches_of(model, fused=True, gpu=True)))
    with torch.no_grad():
        torch.testing.assert_close(loss_of(model), expected, **CLOSE)
    patch_stack.undo()
    assert forwards(model) == before
    with torch.no_grad():
        assert torch.equal(loss_of(model), expected)

    plain, grads = gradients(no_dropout(model).train())
    patch_stack = PatchStack(list(patches_of(model, fused=True, gpu=True)))
    loss, found = gradients(model)
    torch.testing.assert_close(loss, plain, **CLOSE)
    assert found.keys() == grads.keys()
    for name, grad in grads.items():
        torch.testing.assert_close(found[name], grad, **CLOSE, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("method", ["houlsby", "pals", "low_rank"])
def test_adapters_around_a_dropout_get_gradients_while_it_drops(method):
    model = scramble(build("bert", method)).train()
    _, grads = gradients(model)
    PatchStack(list(patches_of(model, fused=True, gpu=True)))
    _, found = gradients(model)
    moved = {name for name, grad in grads.items() if grad.any()}
    assert moved
    assert moved == {name for name, grad in found.items() if grad.any()}
