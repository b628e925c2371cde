from __future__ import annotations

import pytest
import torch

from tests.tiny import TASKS, batch, build, labels, no_dropout, scramble
from weft.errors import WeftError
from weft.ownership import owned
from weft.training.owners import OwnerOptimizers, owners_of_tasks


def test_equal_to_separate_parameters_without_gradient():
    """Views of a stack under their own AdamW move as parameters of their own would, bit by bit."""
    model = no_dropout(scramble(build("bert", "lora", head_dropout=0.0)))
    optimizers = OwnerOptimizers(model, lr=1e-2, weight_decay=0.1)
    items = [i for i in owned(model) if i.trains]
    apart = [torch.nn.Parameter(i.data.clone()) for i in items]
    groups = [
        {"params": [p], "weight_decay": 0.1 if i.role == "weight" else 0.0}
        for i, p in zip(items, apart, strict=True)
    ]
    reference = torch.optim.AdamW(groups, lr=1e-2, fused=True)
    inputs = batch(model)
    for step in range(6):
        present = [t for t in range(4) if (step + t) % 3]
        rows = torch.isin(inputs["task"], torch.tensor(present))
        some = {k: v[rows] for k, v in inputs.items()}
        optimizers.zero_grad()
        model.loss(model.run(**some), labels(model, some["task"])).backward()
        names = {f"task:{TASKS[t].name}" for t in present}
        for item, parameter in zip(items, apart, strict=True):
            gradient = item.parameter.grad[item.slot]
            parameter.grad = gradient.clone() if item.owner in names else None
        optimizers.step(present)
        reference.step()
        for item, parameter in zip(items, apart, strict=True):
            assert torch.equal(item.data, parameter.data), (step, item.name)


def test_gradients_set_to_none_elsewhere_are_followed():
    twins = [no_dropout(scramble(build("bert", "lora", head_dropout=0.0))) for _ in range(2)]
    for model, zero in zip(twins, ("ours", "torch"), strict=True):
        optimizers = OwnerOptimizers(model, lr=1e-2)
        inputs = batch(model)
        for _ in range(3):
            optimizers.zero_grad() if zero == "ours" else model.zero_grad()
            model.loss(model.run(**inputs), labels(model, inputs["task"])).backward()
            optimizers.step([0, 1, 2, 3])
    for (name, one), (_, other) in zip(*(m.named_parameters() for m in twins), strict=True):
        assert torch.equal(one, other), name


def test_parameters_that_moved_are_refused():
    model = build("bert", "lora")
    optimizers = OwnerOptimizers(model)
    model.double()
    with pytest.raises(WeftError, match="has moved in memory"):
        optimizers.step([0])


def test_owners_of_tasks():
    model = build("bert", {"use": "lora", "share": {"g": ["a", "c"]}})
    found = owners_of_tasks(model)
    assert found[0] == {"encoder", "shared", "task:a", "group:g"}
    assert found[1] == {"encoder", "shared", "task:b"}


def test_decay_goes_by_role():
    model = build("bert", ["full", "bitfit"])
    by_role = {}
    for item in owned(model):
        by_role.setdefault(item.role, set()).add(item.name.rsplit(".", 1)[-1])
    assert by_role == {"weight": {"weight"}, "norm": {"weight"}, "bias": {"bias", "v"}}
    # LayerNorm weights, biases and the bias vectors (two-dimensional in their stack) have no decay
    optimizers = OwnerOptimizers(model, weight_decay=0.3)
    for optimizer in optimizers.optimizers.values():
        assert {g["weight_decay"] for g in optimizer.param_groups} <= {0.3, 0.0}
    decayed = sum(
        p.numel()
        for o in optimizers.optimizers.values()
        for g in o.param_groups
        if g["weight_decay"]
        for p in g["params"]
    )
    assert decayed == sum(i.numel for i in owned(model) if i.role == "weight" and i.trains)
