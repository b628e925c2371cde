"""A head of one layer is a linear map of its features, for every kind that declares a probe."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from tests.support.every_kind import NAMES, task_of_kind, tokens_of
from tests.support.tiny_run import save_encoder
from weft.inference.runner import answers
from weft.tasks.kinds import KINDS
from weft.training.head_start.features import head_features

LINEAR = tuple(
    name
    for name in NAMES
    if KINDS[task_of_kind(name).kind].probe is not None and task_of_kind(name).compare != "cosine"
)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder"))


def test_these_kinds_are_linear():
    assert LINEAR == ("classify", "apart", "regress", "two", "multilabel", "similar", "marked")


@pytest.mark.each_value
@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("pool", ["cls", "mean", "pooler", "task_pooler"])
def test_logits_are_a_linear_map_of_the_features(name, pool, encoder):
    tasks = [task_of_kind(each, train=20, pool=pool, layers=1, hidden=None) for each in LINEAR]
    model = weft.Model(encoder, tasks, {"use": "lora", "rank": 2}, seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    number = model.task_id(name)
    tokens = tokens_of(tasks[number], model.tokenizer)
    which = [7, 3, 19, 0, 11]
    features = head_features(model, name, tokens, which)
    head = model.heads[tasks[number].head]
    slot = head.stacks["weight"].slots.of_task[number]
    weight, bias = (head.get_parameter(x)[slot].detach().numpy() for x in ("weight", "bias"))
    expected = np.stack(answers(model, [(number, tokens, i) for i in which]))
    np.testing.assert_allclose(features @ weight.T + bias, expected, atol=2e-5)
    assert not head._forward_pre_hooks
