"""LoRA per task equals `peft` on the same weights: outputs and gradients, task by task and mixed."""

from __future__ import annotations

import pytest
import torch
from peft import LoraConfig, get_peft_model

import weft
from tests.support.tiny import TASKS, batch, scramble, tiny

RANK, ALPHA = 3, 6


def peft_twin(model: weft.Model, family: str, targets: list[str]):
    """A PEFT model with one adapter a task and the weights of ours."""
    rank = RANK * (2 if family == "modernbert" else 1)
    # alpha grows with the rank, so that the scale stays alpha / rank
    config = LoraConfig(r=rank, lora_alpha=ALPHA * rank / RANK, target_modules=targets, lora_dropout=0.0)
    twin = get_peft_model(tiny(family), config, adapter_name=TASKS[0].name)
    for task in TASKS[1:]:
        twin.add_adapter(task.name, config)
    for site, adapter in model.placements:
        if family == "modernbert":
            continue
        layer = twin.base_model.model.get_submodule(site.path)
        for t, task in enumerate(TASKS):
            layer.lora_A[task.name].weight.data.copy_(adapter.A[t])
            layer.lora_B[task.name].weight.data.copy_(adapter.B[t])
    if family == "modernbert":
        _fuse(model, twin)
    return twin.eval()


def _fuse(model, twin):
    """Query and value of a fused map: one block of twice the rank, B with the key's third left zero."""
    by_layer: dict = {}
    for site, adapter in model.placements:
        by_layer.setdefault((site.layer, site.path), {})[site.kind] = adapter
    for (_, path), adapters in by_layer.items():
        layer = twin.base_model.model.get_submodule(path)
        for t, task in enumerate(TASKS):
            query, value = adapters["query"], adapters["value"]
            layer.lora_A[task.name].weight.data.copy_(torch.cat([query.A[t], value.A[t]]))
            width = query.B.size(1)
            b = torch.zeros(3 * width, 2 * RANK)
            b[:width, :RANK] = query.B[t]
            b[2 * width :, RANK:] = value.B[t]
            layer.lora_B[task.name].weight.data.copy_(b)


@pytest.mark.parametrize(("family", "targets"), [("bert", ["query", "value"]), ("modernbert", ["Wqkv"])])
def test_lora_per_task_equals_peft(family, targets):
    model = weft.Model(tiny(family), TASKS, {"use": "lora", "rank": RANK, "alpha": ALPHA}).eval()
    twin = peft_twin(scramble(model), family, targets)
    inputs = batch(model)
    task = inputs.pop("task")
    ours = model.run(**inputs, task=task)
    mask = inputs["attention_mask"].bool()
    # mixed, by PEFT's own way of mixing
    mixed = twin(**inputs, adapter_names=[TASKS[t].name for t in task.tolist()]).last_hidden_state
    torch.testing.assert_close(ours.hidden[mask], mixed[mask], rtol=1e-5, atol=1e-5)
    # and task by task
    for t, one in enumerate(TASKS):
        twin.set_adapter(one.name)
        rows = task == t
        found = twin(**{k: v[rows] for k, v in inputs.items()}).last_hidden_state
        torch.testing.assert_close(ours.hidden[rows][mask[rows]], found[mask[rows]], rtol=1e-5, atol=1e-5)


def test_gradients_equal_pefts():
    model = weft.Model(tiny("bert"), TASKS, {"use": "lora", "rank": RANK, "alpha": ALPHA}).eval()
    twin = peft_twin(scramble(model), "bert", ["query", "value"])
    inputs = batch(model)
    task = inputs.pop("task")
    model.run(**inputs, task=task).pooled.square().sum().backward()
    for t, one in enumerate(TASKS):
        twin.set_adapter(one.name)
        rows = task == t
        twin(**{k: v[rows] for k, v in inputs.items()}).pooler_output.square().sum().backward()
        for site, adapter in model.placements:
            layer = twin.base_model.model.get_submodule(site.path)
            torch.testing.assert_close(
                adapter.A.grad[t], layer.lora_A[one.name].weight.grad, rtol=1e-4, atol=1e-4
            )
            torch.testing.assert_close(
                adapter.B.grad[t], layer.lora_B[one.name].weight.grad, rtol=1e-4, atol=1e-4
            )


def test_sizes_equal_pefts_on_minilm():
    model = weft.Model("minilm", TASKS, "lora")
    twin = get_peft_model(
        weft.load_encoder("minilm").model, LoraConfig(r=8, target_modules=["query", "value"])
    )
    assert model.ledger()["per_task"]["a"] == twin.get_nb_trainable_parameters()[0]
