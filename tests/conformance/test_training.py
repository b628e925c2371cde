"""What every method must keep on every family while it trains; see table.py."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.conformance.cases import assert_near, bare_of, every_case, model_of
from tests.conformance.table import METHODS
from tests.support.tiny import batch, build, labels, no_dropout
from weft.model.ownership import owned
from weft.training.optim.owners import OwnerOptimizers


@every_case
def test_mixed_losses_and_gradients_equal_single_task_ones(method, family):
    model = no_dropout(model_of(method, family, head_dropout=0.0))
    inputs = batch(model)
    task = inputs["task"]
    given = labels(model, task)
    loss = model.loss(model.run(**inputs), given)
    loss.backward()
    mixed = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    present = task.unique().tolist()
    total = 0.0
    for t in present:
        rows = task == t
        output = model.run(**{k: v[rows] for k, v in inputs.items()})
        part = model.loss(output, {k: v[rows] for k, v in given.items()}) / len(present)
        part.backward()
        total += part.detach()
    assert_near(total, loss.detach())
    trained = {n for n, p in model.named_parameters() if p.requires_grad}
    single = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    if method != "separate":
        unused = {n for n in trained - set(mixed) if "word_embeddings" not in n}
        assert not unused, "a parameter that a batch leaves without gradient breaks data parallelism"
    for name, gradient in mixed.items():
        torch.testing.assert_close(
            gradient, single[name], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


@every_case
def test_under_autocast_the_start_is_the_base_too(method, family):
    """bf16 as on a GPU: no term may lift the stream to float32, and gradients must come."""
    model, bare = build(family, METHODS[method]), bare_of(family)
    inputs = batch(model)
    with torch.autocast("cpu", torch.bfloat16):
        expected = bare(inputs["input_ids"], attention_mask=inputs["attention_mask"]).last_hidden_state
        output = model.run(**inputs)
    assert output.hidden.dtype == expected.dtype
    tolerance = {"rtol": 0.1, "atol": 0.1} if model.method.separate else {"rtol": 0, "atol": 0}
    if model.method.starts_at_base:
        torch.testing.assert_close(output.hidden, expected, **tolerance)
    assert output.hidden.isfinite().all()
    model.loss(output, labels(model, inputs["task"])).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@every_case
def test_gradient_checkpointing_changes_nothing(method, family):
    model = no_dropout(model_of(method, family, head_dropout=0.0))
    encoder = next(iter(model.encoder.values())) if method == "separate" else model.encoder
    if not encoder.supports_gradient_checkpointing:
        with pytest.raises(Exception, match="has no gradient checkpointing"):
            model.gradient_checkpointing_enable()
        return
    inputs = batch(model)
    given = labels(model, inputs["task"])
    gradients = []
    for checkpointing in (False, True):
        if checkpointing and method == "lora":
            model.encoder.gradient_checkpointing_enable()  # Hugging Face's own way is as safe
        elif checkpointing:
            model.gradient_checkpointing_enable()
        output = model.run(**inputs, layers=True)
        loss = model.loss(output, given) + sum(x.square().mean() for x in output.layers)
        # another forward in between, with other tasks, must not reach into the first one's backward
        model.run(**{**inputs, "task": inputs["task"].flip(0)})
        model.zero_grad()
        loss.backward()
        gradients.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        assert_near(gradients[1][name], gradient)


@every_case
def test_a_step_leaves_an_absent_task_alone(method, family):
    model = no_dropout(model_of(method, family))
    optimizers = OwnerOptimizers(model, lr=1e-2, weight_decay=0.1)
    inputs = batch(model)

    def step(tasks):
        rows = torch.isin(inputs["task"], torch.tensor(tasks))
        some = {k: v[rows] for k, v in inputs.items()}
        optimizers.zero_grad()
        model.loss(model.run(**some), labels(model, some["task"])).backward()
        optimizers.step(tasks)

    step([0, 1, 2, 3])  # everyone has momentum now
    kept = [0, 2] if method == "lora-groups" else [1, 3]
    gone = sorted({0, 1, 2, 3} - set(kept))
    before = {(i.name, i.slot): i.data.clone() for i in owned(model)}
    states = copy.deepcopy(optimizers.state_dict())
    step(kept)
    absent = {f"task:{model.tasks[t].name}" for t in gone} | (
        {"group:second"} if method == "lora-groups" else set()
    )
    moved = set()
    for item in owned(model):
        equal = torch.equal(item.data, before[item.name, item.slot])
        if item.owner in absent or not item.trains:
            assert equal, f"{item.name}[{item.slot}] of {item.owner} moved"
        elif not equal:
            moved.add(item.owner)
    assert {f"task:{model.tasks[t].name}" for t in kept} <= moved
    for owner in absent & set(states):
        _same_state(optimizers.state_dict()[owner], states[owner])


def _same_state(found, expected):
    assert found["param_groups"] == expected["param_groups"]
    for key, entry in expected["state"].items():
        for name, value in entry.items():
            assert torch.equal(found["state"][key][name], value)
