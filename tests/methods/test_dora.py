"""DoRA equals PEFT's on the same weights, and its norms follow the parameters; see tests/adapters too."""

from __future__ import annotations

import copy

import pytest
import torch
from peft import LoraConfig, get_peft_model

import weft
from tests.support.tiny import TASKS, batch, build, labels, no_dropout, scramble, tiny
from tests.support.tiny_run import save_encoder
from weft.adapters.dora import DoraAdapter
from weft.errors import WeftError
from weft.training.optim.owners import OwnerOptimizers

RANK, ALPHA = 3, 6
METHOD = {"use": "dora", "rank": RANK, "alpha": ALPHA}


@torch.no_grad()
def peft_twin(model: weft.Model):
    """A PEFT model with one DoRA per task and the weights of ours, in eval mode."""
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=["query", "value"], use_dora=True)
    twin = get_peft_model(tiny("bert"), config, adapter_name=TASKS[0].name)
    for task in TASKS[1:]:
        twin.add_adapter(task.name, config)
    for site, adapter in model.placements:
        layer = twin.base_model.model.get_submodule(site.path)
        for t, task in enumerate(TASKS):
            layer.lora_A[task.name].weight.copy_(adapter.A[t])
            layer.lora_B[task.name].weight.copy_(adapter.B[t])
            layer.lora_magnitude_vector[task.name].weight.copy_(adapter.m[t])
    return twin.eval()


@pytest.mark.parametrize("grad", [True, False])
def test_outputs_equal_pefts(grad):
    """With gradients the norms are computed, without them they are kept."""
    model = scramble(build("bert", METHOD))
    twin = peft_twin(model)
    inputs = batch(model)
    task, mask = inputs.pop("task"), inputs["attention_mask"].bool()
    with torch.set_grad_enabled(grad):
        ours = model.run(**inputs, task=task).hidden
    for t, one in enumerate(TASKS):
        twin.set_adapter(one.name)
        rows = task == t
        expected = twin(**{k: v[rows] for k, v in inputs.items()}).last_hidden_state
        torch.testing.assert_close(ours[rows][mask[rows]], expected[mask[rows]], rtol=1e-5, atol=1e-5)


def test_gradients_equal_pefts():
    model = scramble(build("bert", METHOD))
    twin = peft_twin(model)
    inputs = batch(model)
    task = inputs.pop("task")
    model.run(**inputs, task=task).pooled.square().sum().backward()
    for t, one in enumerate(TASKS):
        twin.set_adapter(one.name)
        rows = task == t
        twin(**{k: v[rows] for k, v in inputs.items()}).pooler_output.square().sum().backward()
        for site, adapter in model.placements:
            layer = twin.base_model.model.get_submodule(site.path)
            theirs = {"A": layer.lora_A, "B": layer.lora_B, "m": layer.lora_magnitude_vector}
            for name, modules in theirs.items():
                ours, expected = adapter.get_parameter(name).grad[t], modules[one.name].weight.grad
                assert ours.any()
                torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


def test_it_starts_as_pefts():
    """m is ‖W‖."""
    model = build("bert", METHOD)
    twin = get_peft_model(tiny("bert"), LoraConfig(r=2, target_modules=["query", "value"], use_dora=True))
    for site, adapter in model.placements:
        layer = twin.base_model.model.get_submodule(site.path)
        for slot in adapter.m:
            torch.testing.assert_close(slot, layer.lora_magnitude_vector["default"].weight)


def test_parameters_of_a_task_on_bert_base():
    model = weft.Model("random:bert-base", TASKS, "dora", device="meta")
    assert set(model.ledger()["per_task"].values()) == {313_344}  # 24·(2·768·8 + 768)
    assert model.ledger()["shared"] == 0


@pytest.fixture
def counted(monkeypatch):
    """How often norms are computed."""
    calls = []
    plain = DoraAdapter._norms

    def norms(self, apart):
        calls.append(self)
        return plain(self, apart)

    monkeypatch.setattr(DoraAdapter, "_norms", norms)
    return calls


def hidden(model, inputs):
    with torch.no_grad():
        return model.run(**inputs).hidden


def test_inference_computes_norms_once(counted):
    model = scramble(build("bert", METHOD))
    inputs = batch(model)
    first = hidden(model, inputs)
    assert len(counted) == len(model.placements)
    for _ in range(3):
        assert torch.equal(hidden(model, inputs), first)
    assert len(counted) == len(model.placements)


def test_adapters_that_are_off_compute_no_norms(counted):
    model = build("bert", METHOD)
    with model.adapters_off():
        hidden(model, batch(model))
    assert not counted


def written(model):
    with torch.no_grad():
        model.placements[0][1].B.mul_(1.5)


def through_a_view(model):
    for item in weft.model.ownership.owned(model):
        if item.name.endswith(".m"):
            item.data.mul_(1.5)


def a_slot(model):
    with torch.no_grad():
        model.placements[1][1].slot("A", 0).mul_(1.5)


def loaded(model):
    other = scramble(build("bert", METHOD), seed=2)
    model.load_state_dict(other.state_dict())


def a_step(model):
    optimizers = OwnerOptimizers(model, lr=0.1)
    model.train()
    inputs = batch(model)
    model.loss(model.run(**inputs), labels(model, inputs["task"])).backward()
    optimizers.step([0, 1, 2, 3])
    model.eval()


def a_fused_step_in_eval_mode(model):
    """A loop of a user's own, which leaves the model in eval mode; a fused optimizer counts no version."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=0.1, fused=True)
    inputs = batch(model)
    model.loss(model.run(**inputs), labels(model, inputs["task"])).backward()
    versions = [p._version for p in parameters]
    optimizer.step()
    assert [p._version for p in parameters] == versions


def a_captured_step(model):
    """On a CPU the captured code runs uncaptured; here, as in a graph, nothing of it is noticed."""
    versions = [p._version for p in model.adapters.parameters()]
    for parameter in model.adapters.parameters():
        parameter.data.mul_(1.5)
    assert [p._version for p in model.adapters.parameters()] == versions
    model.body.outdate()


def the_encoder(model):
    with torch.no_grad():
        for layer in model.encoder.encoder.layer:
            layer.attention.self.query.weight.mul_(1.2)


KINDS = [
    written,
    through_a_view,
    a_slot,
    loaded,
    a_step,
    a_fused_step_in_eval_mode,
    a_captured_step,
    the_encoder,
]


@pytest.mark.parametrize("change", KINDS)
def test_inference_follows_its_parameters(change):
    """What is kept equals what is computed anew, after every kind of change."""
    model = no_dropout(scramble(build("bert", METHOD))).eval()
    inputs = batch(model)
    before = hidden(model, inputs)
    change(model)
    after = hidden(model, inputs)
    assert not torch.allclose(after, before, atol=1e-4)
    live = model.run(**inputs).hidden  # with gradients norms are computed
    torch.testing.assert_close(after, live.detach(), rtol=1e-5, atol=1e-5)


def test_a_copy_keeps_norms_of_its_own():
    model = scramble(build("bert", METHOD))
    inputs = batch(model)
    before = hidden(model, inputs)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for _, adapter in twin.placements:
            for parameter in adapter.parameters():
                parameter.mul_(1.5)
    torch.testing.assert_close(hidden(twin, inputs), twin.run(**inputs).hidden.detach(), rtol=1e-5, atol=1e-5)
    assert torch.equal(hidden(model, inputs), before)


def test_training_after_the_encoder_was_replaced():
    """‖W‖² is that of the present weights in training too."""
    model = no_dropout(scramble(build("bert", METHOD, head_dropout=0.0)))
    the_encoder(model)
    inputs = batch(model)
    found = model.train().run(**inputs).hidden
    torch.testing.assert_close(found.detach(), hidden(model.eval(), inputs), rtol=1e-5, atol=1e-5)


def test_a_bundle_answers_the_same(tmp_path):
    model = scramble(weft.Model(save_encoder(tmp_path / "encoder"), TASKS, METHOD, max_length=24).eval())
    again = weft.load(model.save(tmp_path / "bundle"))
    inputs = batch(model)
    assert torch.equal(hidden(again, inputs), hidden(model, inputs))


@pytest.mark.parametrize("family", ["bert", "modernbert"])
@pytest.mark.parametrize("order", [1, -1])
def test_beside_other_updates_it_scales_the_map_alone(family, order):
    """Whichever part comes first, the other's term is not rescaled."""
    parts = [{"use": "lora", "rank": 2}, {"use": "bitfit", "biases": "dense"}, METHOD]
    model = scramble(build(family, parts[::order]))
    inputs = batch(model)
    mask = inputs["attention_mask"].bool()
    found = hidden(model, inputs)
    for t, task in enumerate(TASKS):
        rows = inputs["task"] == t
        plain = model.merge(task.name)
        merged = plain(inputs["input_ids"][rows], attention_mask=inputs["attention_mask"][rows])
        torch.testing.assert_close(
            merged.last_hidden_state[mask[rows]], found[rows][mask[rows]], rtol=1e-4, atol=1e-5
        )


def test_two_at_one_map_are_refused():
    with pytest.raises(WeftError, match=r"two parts rescale the map at '0/query' \(DoraAdapter, DoraA"):
        build("bert", [METHOD, {"use": "dora", "sites": "query, key"}])
    build("bert", [METHOD, {"use": "dora", "sites": "key"}])


def test_settings_it_does_not_have():
    with pytest.raises(WeftError, match="l0: no such setting"):
        build("bert", {"use": "dora", "l0": True})
