"""A part of a model moves, the rest is still."""

from __future__ import annotations

import pytest
import torch

from tests.support.tiny import build
from weft.model.ownership import owned
from weft.training.optim.trainable import trainable


@pytest.mark.parametrize("method", ["full", "separate", "lora", {"use": "lora", "share": "all"}])
def test_inside_one_tasks_parameters_train_and_afterwards_all_that_did(method):
    model = build("bert", method)
    before = {name: p.requires_grad for name, p in model.named_parameters()}
    mine = {id(item.parameter) for item in owned(model) if item.owner == "task:b" and item.trains}
    with trainable(model, lambda item: item.owner == "task:b"):
        assert {id(p) for p in model.parameters() if p.requires_grad} == mine
    assert {name: p.requires_grad for name, p in model.named_parameters()} == before


def test_what_the_method_freezes_stays_frozen():
    model = build("bert", "frozen")
    with trainable(model, lambda item: True):
        assert not any(p.requires_grad for p in model.encoder.parameters())


def test_a_head_alone_costs_no_backward_pass_through_the_encoder():
    model = build("bert", "full")
    with trainable(model, lambda item: item.owner == "task:a" and item.part == "heads"):
        output = model.run(torch.tensor([[5, 6, 7]]), task=torch.tensor([0]))
        assert not output.hidden.requires_grad
        assert output.logits[0].requires_grad
