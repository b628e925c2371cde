"""Folders of PEFT as tasks of one model: imported, then put together."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file

import weft
from tests.support.apart import assert_same, close
from tests.support.peft_twin import SEVERAL, WEIGHTS, change_json, saved
from tests.support.tiny import scramble, tiny
from tests.support.tiny_run import save_encoder
from weft.bundle.assemble import assemble
from weft.errors import WeftError
from weft.interop import export_peft, load_peft

pytestmark = pytest.mark.filterwarnings("ignore:.*has no head for the task:UserWarning")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def bundle(encoder, tmp_path):
    """Import what PEFT itself saves with some settings, as the task of a name."""

    def made(name, **settings):
        saved(tmp_path / f"peft-{name}", tiny("bert"), **settings)
        task = weft.Task(name, labels=("no", "yes"))
        return load_peft(tmp_path / f"peft-{name}", encoder, task).save(tmp_path / name)

    return made


def test_biases_and_other_ranks(bundle, tmp_path):
    bundles = [
        bundle("a", target_modules=["query", "value"], r=3, lora_alpha=6, lora_bias=True),
        bundle("b", target_modules=["query", "value"], r=2, lora_bias=True),
        bundle("c", target_modules=["key", "intermediate.dense"], layers_to_transform=[1], lora_bias=True),
        bundle("d", target_modules=["query", "value"], r=5),
    ]
    methods = [weft.load(folder).method for folder in bundles]
    assert [method.name for method in methods] == ["lora_bitfit"] * 3 + ["lora"]
    assert {method.biases for method in methods[:3]} == {"dense"}
    assert methods[2].layers == [1]
    assemble(bundles, tmp_path / "out")
    whole = assert_same(bundles, tmp_path / "out", close(1e-6))
    assert whole.method.name == "lora_bitfit"


@torch.no_grad()
def test_what_has_no_update_can_join(bundle, encoder, tmp_path):
    """A weft task without any update, one with biases alone, and a LoRA of zeros."""
    tasks = SEVERAL[1:2]
    empty = export_peft(weft.Model(encoder, tasks, "frozen"), "b", tmp_path / "x")
    none = load_peft(empty, encoder)
    assert (none.method.name, none.method.rank) == ("lora", 1)
    assert [site.key for site, _ in none.placements] == ["0/query"]
    assert not any(adapter.get_parameter("B").any() for _, adapter in none.placements)
    assert all(adapter.get_parameter("A").any() for _, adapter in none.placements)  # it can be trained
    bitfit = scramble(weft.Model(encoder, SEVERAL[2:], {"use": "bitfit", "biases": "dense"}))
    alone = load_peft(export_peft(bitfit, "c", tmp_path / "y"), encoder)
    assert alone.method.name == "lora_bitfit"
    assert {site.kind for site, _ in alone.placements} >= {"query", "ffn_out"}
    assert len(alone.placements) == 12  # no LoRA
    saved(tmp_path / "z", tiny("bert"), target_modules=["key"], r=2)
    tensors = load_file(tmp_path / "z" / WEIGHTS)
    save_file({key: torch.zeros_like(value) for key, value in tensors.items()}, tmp_path / "z" / WEIGHTS)
    zeros = load_peft(tmp_path / "z", encoder, weft.Task("d", labels=("no", "yes")))
    assert (zeros.method.name, zeros.method.rank, zeros.method.sites) == ("lora", 1, ("key",))
    bundles = [
        bundle("a", target_modules=["query", "value"], r=3),
        none.save(tmp_path / "none"),
        alone.save(tmp_path / "alone"),
        zeros.save(tmp_path / "zeros"),
    ]
    assemble(bundles[:2], tmp_path / "two")
    assert assert_same(bundles[:2], tmp_path / "two", close(1e-6)).method.name == "lora"
    assemble(bundles, tmp_path / "out")
    assert assert_same(bundles, tmp_path / "out", close(1e-6)).method.name == "lora_bitfit"


def test_a_poolers_bias_stays_apart_and_the_refusal_names_the_settings(bundle, tmp_path):
    modules = ["query", "pooler.dense"]
    bundles = [bundle(name, target_modules=modules, r=r, lora_bias=True) for name, r in (("a", 3), ("b", 2))]
    assert [part.name for part in weft.load(bundles[0]).method.parts] == ["lora", "bitfit"]
    with pytest.raises(
        WeftError, match=r"'lora\+bitfit' has different settings .*\n  part 1 \(lora\), rank: 3 and 2"
    ):
        assemble(bundles, tmp_path / "out")


def test_a_pooler_whose_bias_is_zero_does_not(bundle, encoder, tmp_path):
    """PEFT has biases of all modules or of none: those of zero are none."""
    modules = ["query", "pooler.dense"]
    bundle("a", target_modules=modules, r=2, lora_bias=True)
    file = tmp_path / "peft-a" / WEIGHTS
    tensors = load_file(file)
    tensors["base_model.model.pooler.dense.lora_B.bias"].zero_()
    save_file(tensors, file)
    model = load_peft(tmp_path / "peft-a", encoder, weft.Task("a", labels=("no", "yes")))
    assert (model.method.name, model.method.sites) == ("lora_bitfit", ("query", "pooler"))


def test_dropout_is_kept(bundle, encoder, tmp_path):
    bundle("a", target_modules=["query"], r=2)
    change_json(tmp_path / "peft-a" / "adapter_config.json", lora_dropout=0.25)
    model = load_peft(tmp_path / "peft-a", encoder, weft.Task("a", labels=("no", "yes")))
    assert model.method.dropout == 0.25
    back = load_peft(export_peft(model, "a", tmp_path / "back"), encoder)
    assert back.method == model.method
