"""DoRA's norms are constant in inference; captured passes see those of the present weights."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.support.tiny import batch, build, labels, no_dropout, scramble
from weft.inference.captured import CapturedModel

METHOD = {"use": "dora", "rank": 3, "alpha": 6}
NEAR = {"rtol": 1e-4, "atol": 1e-4}


def model_of(device="cpu"):
    return no_dropout(scramble(build("bert", METHOD, head_dropout=0.0))).to(device).eval()


def train_a_step(model, fused=False):
    """One step in which every task has an example; a fused one counts no version of a parameter."""
    inputs = batch(model)
    device = next(model.parameters()).device
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.05, fused=fused)
    model.train()
    output = model.run(**{name: x.to(device) for name, x in inputs.items()})
    right = {name: x.to(device) for name, x in labels(model, inputs["task"]).items()}
    model.loss(output, right).backward()
    optimizer.step()
    model.eval()


def eager_logits(model, inputs):
    """Of a copy, which has kept nothing: with gradients norms are computed."""
    device = next(model.parameters()).device
    twin = copy.deepcopy(model)
    output = twin.run(**{name: x.to(device) for name, x in inputs.items()})
    return [x.detach() for x in output.logits]


def check_that_passes_follow_training(device, fused):
    model = model_of(device)
    inputs = batch(model)
    captured = CapturedModel(model)
    before = captured(**inputs).logits
    torch.testing.assert_close(before, eager_logits(model, inputs), **NEAR)
    for _ in range(2):
        train_a_step(model, fused)
        after = captured(**inputs).logits
        torch.testing.assert_close(after, eager_logits(model, inputs), **NEAR)
        moved = [float((a - b).abs().max()) for a, b in zip(after, before, strict=True)]
        assert max(moved) > 1e-2, "the step has an effect"
        before = after
    assert captured.shapes == 1
    captured.close()


@pytest.mark.parametrize("fused", [False, True])
def test_passes_follow_training(fused):
    check_that_passes_follow_training("cpu", fused)


@pytest.mark.gpu
@pytest.mark.parametrize("fused", [False, True])
def test_a_captured_graph_follows_training(fused):
    check_that_passes_follow_training("cuda", fused)


def test_norms_are_renewed_before_a_pass_is_replayed():
    """A graph runs no Python: nothing inside the pass can renew what it reads, and it reads it in place."""
    model = model_of()
    inputs = batch(model)
    captured = CapturedModel(model)
    captured(**inputs)
    (replayed,) = captured._passes.values()
    kept = [(adapter, adapter._gain, adapter._gain.clone()) for _, adapter in model.placements]
    renewed = []

    def replay():
        renewed.extend(gain.clone() for _, gain, _ in kept)

    replayed.run = replay
    train_a_step(model)
    captured(**inputs)
    assert len(renewed) == len(kept) > 0
    for (adapter, gain, old), now in zip(kept, renewed, strict=True):
        assert adapter._gain is gain
        assert not torch.allclose(now, old, atol=1e-3)
        weight = model.encoder.get_submodule(adapter.site.path).weight
        for task in range(len(model.tasks)):
            update = adapter.scale * adapter.slot("B", task) @ adapter.slot("A", task)
            expected = adapter.slot("m", task) / (weight + update).norm(dim=1)
            torch.testing.assert_close(now[task], expected.detach(), rtol=1e-4, atol=1e-5)
