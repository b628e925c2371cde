"""The variants of LoRA: PiSSA and rsLoRA equal PEFT's, LoRA+ has a rate for B."""

from __future__ import annotations

import math

import pytest
import torch
from peft import LoraConfig, get_peft_model

import weft
from tests.support.tiny import TASKS, batch, build, labels, no_dropout, scramble, tiny
from tests.support.tiny_run import save_encoder
from weft.errors import WeftError
from weft.methods import build_method
from weft.model.ownership import owned
from weft.training.optim.owners import OwnerOptimizers

RANK, ALPHA = 3, 6
TARGETS = ["query", "value"]
PISSA = {"use": "lora", "rank": RANK, "alpha": ALPHA, "init": "pissa"}


def twin_of(**settings):
    return get_peft_model(tiny("bert"), LoraConfig(lora_dropout=0.0, target_modules=TARGETS, **settings))


def layers_of(model, twin):
    for site, adapter in model.placements:
        yield site, adapter, twin.base_model.model.get_submodule(site.path)


@pytest.mark.parametrize("scaling", ["lora", "rslora"])
def test_pissa_starts_as_pefts(scaling):
    """The same product is taken out of the weight, in factors of equal size."""
    model = build("bert", PISSA | {"scaling": scaling})
    twin = twin_of(r=RANK, lora_alpha=ALPHA, init_lora_weights="pissa", use_rslora=scaling == "rslora")
    for site, adapter, layer in layers_of(model, twin):
        whole = tiny("bert").get_submodule(site.path).weight
        a, b = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        assert adapter.scale == layer.scaling["default"]
        torch.testing.assert_close(adapter.B0[0] @ adapter.A0[0], (b @ a).detach(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(adapter.A0[0].norm(dim=1), a.norm(dim=1).detach(), rtol=1e-4, atol=1e-5)
        reduced = whole - adapter.scale * adapter.B0[0] @ adapter.A0[0]
        torch.testing.assert_close(reduced, layer.base_layer.weight, rtol=1e-4, atol=1e-5)


def test_pissas_outputs_and_gradients_equal_pefts():
    model = scramble(build("bert", PISSA))
    with torch.no_grad():  # the constants belong to the encoder
        for (_, moved), (_, plain) in zip(model.placements, build("bert", PISSA).placements, strict=True):
            moved.A0.copy_(plain.A0)
            moved.B0.copy_(plain.B0)
    inputs = batch(model)
    task, mask = inputs.pop("task"), inputs["attention_mask"].bool()
    ours = model.run(**inputs, task=task)
    ours.pooled.square().sum().backward()
    for t in range(len(TASKS)):
        twin = twin_of(r=RANK, lora_alpha=ALPHA, init_lora_weights="pissa").eval()
        with torch.no_grad():
            for _, adapter, layer in layers_of(model, twin):
                layer.lora_A["default"].weight.copy_(adapter.A0[0] + adapter.A[t])
                layer.lora_B["default"].weight.copy_(adapter.B0[0] + adapter.B[t])
        rows = task == t
        found = twin(**{k: v[rows] for k, v in inputs.items()})
        torch.testing.assert_close(
            ours.hidden[rows][mask[rows]], found.last_hidden_state[mask[rows]], rtol=1e-4, atol=1e-4
        )
        found.pooler_output.square().sum().backward()
        for _, adapter, layer in layers_of(model, twin):
            for name, theirs in (("A", layer.lora_A), ("B", layer.lora_B)):
                one, other = adapter.get_parameter(name).grad[t], theirs["default"].weight.grad
                assert one.any()
                torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_pissas_constants_are_shared_and_do_not_train():
    model = build("bert", PISSA)
    items = [item for item in owned(model) if item.part == "adapters"]
    assert {item.name.rpartition(".")[2] for item in items if item.owner == "shared"} == {"A0", "B0"}
    assert {item.name.rpartition(".")[2] for item in items if item.trains} == {"A", "B"}
    per_task = build("bert", {"use": "lora", "rank": RANK}).ledger()["per_task"]
    assert model.ledger()["per_task"] == per_task


@pytest.mark.parametrize("different", [False, True])
def test_bundles_of_pissa_are_assembled(tmp_path, different):
    """With equal settings as they are; with different ones as one LoRA, which holds the constants."""
    encoder = save_encoder(tmp_path / "encoder")
    folders = []
    for number, task in enumerate(TASKS[:2]):
        method = PISSA | ({"rank": RANK + number, "scaling": "rslora"} if different else {})
        model = weft.Model(encoder, [task], method, max_length=24).eval()
        with torch.no_grad():
            for _, adapter in model.placements:
                adapter.A.normal_(0, 0.2)
                adapter.B.normal_(0, 0.2)
        folders.append(model.save(tmp_path / task.name))
    assembled = weft.assemble(folders, tmp_path / "both")
    assert assembled.method.init == ("lora" if different else "pissa")
    both = weft.load(tmp_path / "both")
    inputs = batch(both)
    with torch.no_grad():
        found = both.run(**inputs).hidden
        for number, folder in enumerate(folders):
            rows = inputs["task"] == number
            single = {k: v[rows] for k, v in inputs.items() if k != "task"}
            expected = weft.load(folder).run(**single).hidden
            torch.testing.assert_close(found[rows], expected, rtol=1e-4, atol=1e-4)


def test_a_task_added_to_pissa_starts_at_the_base(tmp_path):
    encoder = save_encoder(tmp_path / "encoder")
    model = scramble(weft.Model(encoder, TASKS[:2], PISSA, max_length=24).eval())
    grown = weft.bundle.load.load_changed(model.save(tmp_path / "bundle"), added=[TASKS[2]])
    inputs = batch(grown)
    inputs["task"] = torch.full_like(inputs["task"], 2)
    with torch.no_grad():
        found = grown.run(**inputs).hidden
        with grown.adapters_off():
            assert torch.equal(grown.run(**inputs).hidden, found)


def test_pissa_has_no_gates():
    with pytest.raises(WeftError, match="init: pissa has no L0 gates; expected l0: null, or init: lora"):
        build_method({"use": "lora", "init": "pissa", "l0": True})


@pytest.mark.parametrize(
    ("settings", "scale"),
    [
        ({}, 1.0),
        ({"alpha": 4}, 0.5),
        ({"alpha": 4, "scaling": "rslora"}, 4 / math.sqrt(8)),
        ({"scaling": "rslora"}, math.sqrt(8)),
        ({"alpha": 4, "scaling": "rslora", "rank_pattern": {"0/query": 2}}, 4 / math.sqrt(8)),
    ],
)
def test_scales(settings, scale):
    model = build("bert", {"use": "lora", **settings})
    assert [adapter.scale for _, adapter in model.placements] == pytest.approx([scale] * 4)


def test_rslora_equals_pefts():
    model = scramble(build("bert", {"use": "lora", "rank": RANK, "alpha": ALPHA, "scaling": "rslora"}))
    inputs = batch(model)
    task, mask = inputs.pop("task"), inputs["attention_mask"].bool()
    ours = model.run(**inputs, task=task)
    ours.pooled.square().sum().backward()
    for t in range(len(TASKS)):
        twin = twin_of(r=RANK, lora_alpha=ALPHA, use_rslora=True).eval()
        with torch.no_grad():
            for _, adapter, layer in layers_of(model, twin):
                layer.lora_A["default"].weight.copy_(adapter.A[t])
                layer.lora_B["default"].weight.copy_(adapter.B[t])
        rows = task == t
        found = twin(**{k: v[rows] for k, v in inputs.items()})
        torch.testing.assert_close(
            ours.hidden[rows][mask[rows]], found.last_hidden_state[mask[rows]], rtol=1e-5, atol=1e-5
        )
        found.pooler_output.square().sum().backward()
        for _, adapter, layer in layers_of(model, twin):
            for name, theirs in (("A", layer.lora_A), ("B", layer.lora_B)):
                expected = theirs["default"].weight.grad
                torch.testing.assert_close(
                    adapter.get_parameter(name).grad[t], expected, rtol=1e-4, atol=1e-4
                )


def moved(model, before):
    """How far each kind of parameter has moved, at most."""
    far = {}
    for item in owned(model):
        name = item.name.rpartition(".")[2] if item.part == "adapters" else item.part
        change = (item.data - before[item.name, item.slot]).abs().max().item()
        far[name] = max(far.get(name, 0.0), change)
    return far


@pytest.mark.parametrize("optimizer", ["adamw", "bert_adam"])
@pytest.mark.parametrize("init", ["lora", "pissa"])
def test_b_moves_faster_by_the_ratio(optimizer, init):
    """The first step of Adam is the learning rate wherever there is a gradient (bert_adam: without
    correction 3.16 times that)."""
    method = {"use": "lora", "lr_ratio": 16, "init": init}
    model = no_dropout(scramble(build("bert", method, head_dropout=0.0)))
    optimizers = OwnerOptimizers(model, lr=1e-3, weight_decay=0.0, optimizer=optimizer, eps=1e-12)
    before = {(i.name, i.slot): i.data.clone() for i in owned(model)}
    inputs = batch(model)
    model.loss(model.run(**inputs), labels(model, inputs["task"])).backward()
    optimizers.step([0, 1, 2, 3])
    far = moved(model, before)
    step = far["heads"]
    assert step > 9e-4
    assert far["A"] == pytest.approx(step, rel=0.01)
    assert far["B"] == pytest.approx(16 * step, rel=0.01)


def test_the_ratio_applies_to_every_peak():
    """Of the run, of a role, of a task, and of the second phase of L0."""
    model = build("bert", {"use": "lora", "lr_ratio": 4})
    rates = {"task": 2e-3, "tasks": {"b": 5e-3}}
    optimizers = OwnerOptimizers(model, lr=1e-3, lr_of=rates)

    def lrs(owner):
        return {group["lr"] for group in optimizers.optimizers[owner].param_groups}

    assert lrs("task:a") == {2e-3, 8e-3}
    assert lrs("task:b") == {5e-3, 2e-2}
    plain = OwnerOptimizers(model, lr=1e-3)
    plain.set_factor(0.5, peak=1e-2)
    assert {g["lr"] for g in plain.optimizers["task:a"].param_groups} == {5e-3, 2e-2}
    assert plain.lr == 5e-3  # what is logged is A's
