"""VeRA equals PEFT's on the same weights; its random factors are the same everywhere and in no file."""

from __future__ import annotations

import hashlib

import pytest
import torch
from peft import VeraConfig, get_peft_model
from safetensors.torch import load_file

import weft
from tests.support.tiny import TASKS, batch, build, scramble, tiny
from tests.support.tiny_run import save_encoder
from weft.adapters.vera import RandomFactors
from weft.errors import WeftError

RANK = 40
METHOD = {"use": "vera", "rank": RANK}


@torch.no_grad()
def peft_twin(model: weft.Model, task: int):
    """A PEFT model of one task with the weights and factors of ours, in eval mode."""
    config = VeraConfig(r=RANK, target_modules=["query", "value"], vera_dropout=0.0)
    twin = get_peft_model(tiny("bert"), config)
    for site, adapter in model.placements:
        layer = twin.base_model.model.get_submodule(site.path)
        layer.vera_A["default"].copy_(adapter.factors.A)
        layer.vera_B["default"].copy_(adapter.factors.B)
        layer.vera_lambda_d["default"].copy_(adapter.d[task])
        layer.vera_lambda_b["default"].copy_(adapter.v[task])
    return twin.eval()


def test_outputs_and_gradients_equal_pefts():
    model = scramble(build("bert", METHOD))
    inputs = batch(model)
    task, mask = inputs.pop("task"), inputs["attention_mask"].bool()
    ours = model.run(**inputs, task=task)
    ours.pooled.square().sum().backward()
    for t in range(len(TASKS)):
        twin = peft_twin(model, t)
        rows = task == t
        found = twin(**{k: v[rows] for k, v in inputs.items()})
        torch.testing.assert_close(
            ours.hidden[rows][mask[rows]], found.last_hidden_state[mask[rows]], rtol=1e-5, atol=1e-5
        )
        found.pooler_output.square().sum().backward()
        for site, adapter in model.placements:
            layer = twin.base_model.model.get_submodule(site.path)
            for name, theirs in (("d", layer.vera_lambda_d), ("v", layer.vera_lambda_b)):
                one, other = adapter.get_parameter(name).grad[t], theirs["default"].grad
                assert one.any()
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_it_starts_as_pefts():
    """The same d and v, and factors from the same distribution."""
    model = build("bert", METHOD)
    twin = get_peft_model(tiny("bert"), VeraConfig(r=RANK, target_modules=["query", "value"]))
    for site, adapter in model.placements:
        layer = twin.base_model.model.get_submodule(site.path)
        assert torch.equal(adapter.d[0], layer.vera_lambda_d["default"])
        assert torch.equal(adapter.v[0], layer.vera_lambda_b["default"])
        for name in "AB":
            ours, theirs = getattr(adapter.factors, name), getattr(layer, f"vera_{name}")["default"]
            bound = (6 / theirs.size(1)) ** 0.5
            assert 0.99 * bound < ours.abs().max() <= bound >= theirs.abs().max()
            assert ours.mean().abs() < 0.05 * bound
            torch.testing.assert_close(ours.std(), theirs.std(), rtol=0.1, atol=0)


def test_parameters_of_a_task_on_bert_base():
    model = weft.Model("random:bert-base", TASKS, {"use": "vera", "rank": 1024}, device="meta")
    assert set(model.ledger()["per_task"].values()) == {43_008}  # 24·(1024 + 768)
    assert model.ledger()["shared"] == 0


def test_factors_are_the_same_on_every_machine():
    """Recorded once: a change would break every bundle."""
    factors = RandomFactors(5, 3, 4, seed=0)
    parts = [hashlib.sha256(factors.get_buffer(n).numpy().tobytes()).hexdigest()[:16] for n in "AB"]
    assert parts == ["35d8017c1b051cab", "000a7019e0eb01ca"]


def test_all_maps_of_one_shape_share_their_factors():
    model = build("bert", METHOD | {"sites": "query, value, ffn_in"})
    by_kind = {}
    for site, adapter in model.placements:
        by_kind.setdefault(site.kind, set()).add(id(adapter.factors))
    assert by_kind["query"] == by_kind["value"]
    assert len(by_kind["query"]) == len(by_kind["ffn_in"]) == 1
    assert by_kind["query"] != by_kind["ffn_in"]


def test_factors_depend_on_their_seed_alone():
    def factor(**settings):
        return build("bert", METHOD | settings.pop("method", {}), **settings).placements[0][1].factors.A

    assert torch.equal(factor(), factor(seed=7))
    assert torch.equal(factor(), factor(tasks=TASKS[:1]))
    assert not torch.equal(factor(), factor(method={"factor_seed": 1}))


def test_no_file_holds_them(tmp_path):
    model = scramble(weft.Model(save_encoder(tmp_path / "encoder"), TASKS, METHOD, max_length=24).eval())
    bundle = model.save(tmp_path / "bundle")
    assert not load_file(bundle / "shared.safetensors")
    names = {key.rpartition(".")[2] for key in load_file(bundle / "tasks" / "a.safetensors")}
    assert names == {"d", "v", "weight", "bias"}
    again = weft.load(bundle)
    inputs = batch(model)
    with torch.no_grad():
        assert torch.equal(again.run(**inputs).hidden, model.run(**inputs).hidden)


def test_bundles_with_other_factors_are_not_joined(tmp_path):
    encoder = save_encoder(tmp_path / "encoder")
    folders = [
        weft.Model(encoder, [task], METHOD | {"factor_seed": seed}, max_length=24).save(tmp_path / task.name)
        for seed, task in enumerate(TASKS[:2])
    ]
    with pytest.raises(WeftError, match="factor_seed: 0 and 1"):
        weft.assemble(folders, tmp_path / "both")


@pytest.mark.parametrize("rank", [8, 40])
def test_its_update_as_a_product(rank):
    model = scramble(build("bert", METHOD | {"rank": rank}))
    _, adapter = model.placements[0]
    up, down = adapter.low_rank_delta(1)
    assert up.size(1) == min(rank, 32)
    torch.testing.assert_close(up @ down, adapter.weight_delta(1)[0], rtol=1e-4, atol=1e-5)
